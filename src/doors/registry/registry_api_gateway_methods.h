/*
 * The JSON form of this door: the HTTP method, the path behind /lease/v1, and the gRPC method that
 * serves it. This is the only list: routes and rights are made of it. GET has its fields in the
 * path and the query, POST in its body.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_API_GATEWAY_METHODS_H
#define LEASED_DOORS_REGISTRY_REGISTRY_API_GATEWAY_METHODS_H

/* clang-format off */
#define REGISTRY_API_GATEWAY_POSTS(X)                                                              \
    X("/registry/register", "/leased.v1.Registry/RegisterInstance", DOOR_RIGHT_WRITE)                      \
    X("/registry/renew", "/leased.v1.Registry/Renew", DOOR_RIGHT_WRITE)                            \
    X("/registry/deregister", "/leased.v1.Registry/DeregisterInstance", DOOR_RIGHT_WRITE)                  \
    X("/registry/set-state", "/leased.v1.Registry/SetState", DOOR_RIGHT_WRITE)                     \
    X("/registry/set-metadata", "/leased.v1.Registry/SetMetadata", DOOR_RIGHT_WRITE)               \
    X("/registry/report", "/leased.v1.Registry/Report", DOOR_RIGHT_WRITE)                          \
    X("/registry/put-check", "/leased.v1.Registry/PutCheck", DOOR_RIGHT_WRITE)                     \
    X("/registry/delete-check", "/leased.v1.Registry/DeleteCheck", DOOR_RIGHT_WRITE)               \
    X("/registry/discover", "/leased.v1.Registry/Discover", DOOR_RIGHT_READ)                       \
    X("/registry/watch", "/leased.v1.Registry/WatchService", DOOR_RIGHT_READ)                      \
    X("/registry/list", "/leased.v1.Registry/ListServices", DOOR_RIGHT_READ)                       \
    X("/registry/get", "/leased.v1.Registry/GetService", DOOR_RIGHT_READ)                          \
    X("/registry/set", "/leased.v1.Registry/SetService", DOOR_RIGHT_WRITE)                         \
    X("/registry/events", "/leased.v1.Registry/Events", DOOR_RIGHT_READ)

#define REGISTRY_API_GATEWAY_GETS(X)                                                               \
    X("/services", "/leased.v1.Registry/ListServices", DOOR_RIGHT_READ)                            \
    X("/services/{service...}", "/leased.v1.Registry/Discover", DOOR_RIGHT_READ)
/* clang-format on */

#endif
