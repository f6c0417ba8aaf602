/*
 * The JSON form of this door: the HTTP method, the path behind /lease/v1, and the gRPC method that
 * serves it. This is the only list: routes and rights are made of it. GET has its fields in the
 * path and the query, POST in its body.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_GATEWAY_METHODS_H
#define LEASED_DOORS_NATIVE_NATIVE_GATEWAY_METHODS_H

/* clang-format off */
#define NATIVE_GATEWAY_POSTS(X)                                                                    \
    X("/sessions/create", "/leased.v1.Sessions/Create", DOOR_RIGHT_USER)                           \
    X("/sessions/renew", "/leased.v1.Sessions/Renew", DOOR_RIGHT_WRITE)                            \
    X("/sessions/change", "/leased.v1.Sessions/Change", DOOR_RIGHT_WRITE)                          \
    X("/sessions/end", "/leased.v1.Sessions/End", DOOR_RIGHT_WRITE)                                \
    X("/sessions/get", "/leased.v1.Sessions/Get", DOOR_RIGHT_USER)                                 \
    X("/sessions/list", "/leased.v1.Sessions/List", DOOR_RIGHT_USER)                               \
    X("/resources/acquire", "/leased.v1.Resources/Acquire", DOOR_RIGHT_READ_WRITE)                 \
    X("/resources/wait", "/leased.v1.Resources/Wait", DOOR_RIGHT_READ_WRITE)                       \
    X("/resources/release", "/leased.v1.Resources/Release", DOOR_RIGHT_READ_WRITE)                 \
    X("/resources/transfer", "/leased.v1.Resources/Transfer", DOOR_RIGHT_READ_WRITE)               \
    X("/resources/proclaim", "/leased.v1.Resources/Proclaim", DOOR_RIGHT_READ_WRITE)               \
    X("/resources/get", "/leased.v1.Resources/Get", DOOR_RIGHT_READ)                               \
    X("/resources/list", "/leased.v1.Resources/List", DOOR_RIGHT_READ)                             \
    X("/resources/observe", "/leased.v1.Resources/Observe", DOOR_RIGHT_READ)                       \
    X("/pools/set", "/leased.v1.Pools/Set", DOOR_RIGHT_WRITE)                                      \
    X("/pools/remove", "/leased.v1.Pools/Remove", DOOR_RIGHT_WRITE)                                \
    X("/pools/get", "/leased.v1.Pools/Get", DOOR_RIGHT_READ)                                       \
    X("/pools/list", "/leased.v1.Pools/List", DOOR_RIGHT_READ)                                     \
    X("/fences/check", "/leased.v1.Fences/Check", DOOR_RIGHT_READ_WRITE)                           \
    X("/fences/get", "/leased.v1.Fences/Get", DOOR_RIGHT_READ)                                     \
    X("/history/why", "/leased.v1.History/Why", DOOR_RIGHT_READ)                                   \
    X("/history/events", "/leased.v1.History/Events", DOOR_RIGHT_READ)

#define NATIVE_GATEWAY_GETS(X)                                                                     \
    X("/sessions", "/leased.v1.Sessions/List", DOOR_RIGHT_USER)                                    \
    X("/sessions/{session_id}", "/leased.v1.Sessions/Get", DOOR_RIGHT_USER)                        \
    X("/resources", "/leased.v1.Resources/List", DOOR_RIGHT_READ)                                  \
    X("/resources/{resource...}", "/leased.v1.Resources/Get", DOOR_RIGHT_READ)                     \
    X("/pools", "/leased.v1.Pools/List", DOOR_RIGHT_READ)                                          \
    X("/pools/{name...}", "/leased.v1.Pools/Get", DOOR_RIGHT_READ)                                 \
    X("/fences/{resource...}", "/leased.v1.Fences/Get", DOOR_RIGHT_READ)                           \
    X("/history", "/leased.v1.History/Why", DOOR_RIGHT_READ)
/* clang-format on */

#endif
