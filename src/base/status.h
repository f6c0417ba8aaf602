/*
 * The one list of outcomes. Peers make errors, and an error of a peer is a status; a broken
 * invariant of our own is an assertion instead.
 */
#ifndef LEASED_BASE_STATUS_H
#define LEASED_BASE_STATUS_H

#define STATUS_LIST(X)                                                                             \
    X(OK, "ok")                                                                                    \
    X(PENDING, "the answer comes later")                                                           \
    X(KEY_EMPTY, "key is not provided")                                                            \
    X(KEY_NOT_FOUND, "key not found")                                                              \
    X(KEY_DUPLICATE, "duplicate key given in txn request")                                         \
    X(VALUE_PROVIDED, "value is provided")                                                         \
    X(LEASE_PROVIDED, "lease is provided")                                                         \
    X(TOO_MANY_OPERATIONS, "too many operations in txn request")                                   \
    X(REQUEST_TOO_LARGE, "request is too large")                                                   \
    X(REVISION_COMPACTED, "required revision has been compacted")                                  \
    X(REVISION_FUTURE, "required revision is a future revision")                                   \
    X(LEASE_NOT_FOUND, "requested lease not found")                                                \
    X(LEASE_EXISTS, "lease already exists")                                                        \
    X(LEASE_TTL_TOO_LARGE, "too large lease TTL")                                                  \
    X(NO_LEADER, "no leader")                                                                      \
    X(LEADER_CHANGED, "leader changed")                                                            \
    X(TIMED_OUT, "request timed out")                                                              \
    X(TOO_MANY_REQUESTS, "too many requests")                                                      \
    X(NO_SPACE, "database space exceeded")                                                         \
    X(STOPPED, "server stopped")                                                                   \
    X(CANCELED, "canceled")                                                                        \
    X(INVALID, "invalid argument")                                                                 \
    X(MALFORMED, "malformed input")                                                                \
    X(CORRUPT, "stored data is corrupt")                                                           \
    X(UNSUPPORTED, "not supported")                                                                \
    X(NO_MEMORY, "out of memory")                                                                  \
    X(IO, "input or output failed")                                                                \
    X(MEMBER_EXISTS, "member id already exists")                                                   \
    X(MEMBER_NOT_FOUND, "member not found")                                                        \
    X(MEMBER_NOT_LEARNER, "can only promote a learner member")                                     \
    X(MEMBER_NOT_READY, "can only promote a learner member which is in sync with leader")          \
    X(PEER_URL_EXISTS, "peer URLs already exist")                                                  \
    X(TOO_MANY_LEARNERS, "too many learner members in cluster")                                    \
    X(TOO_MANY_MEMBERS, "too many members in cluster")                                             \
    X(MEMBERS_NOT_ENOUGH, "re-configuration failed due to not enough started members")             \
    X(UNHEALTHY, "unhealthy cluster")                                                              \
    X(CANNOT_LISTEN, "cannot listen on the address")                                               \
    X(DATA_DIR_IN_USE, "data directory is in use by another process")                              \
    X(DATA_DIR_REPLACED, "data directory was replaced")                                            \
    X(MEMBER_NOT_ADDED, "member was not added to the cluster")                                     \
    X(MEMBER_REMOVED, "member was removed from the cluster")                                       \
    X(USER_EMPTY, "user name is empty")                                                            \
    X(USER_EXISTS, "user name already exists")                                                     \
    X(USER_NOT_FOUND, "user name not found")                                                       \
    X(ROLE_EMPTY, "role name is empty")                                                            \
    X(ROLE_EXISTS, "role name already exists")                                                     \
    X(ROLE_NOT_FOUND, "role name not found")                                                       \
    X(ROLE_NOT_GRANTED, "role is not granted to the user")                                         \
    X(PERMISSION_NOT_GIVEN, "permission not given")                                                \
    X(PERMISSION_NOT_GRANTED, "permission is not granted to the role")                             \
    X(PERMISSION_DENIED, "permission denied")                                                      \
    X(ROOT_USER_MISSING, "root user does not exist")                                               \
    X(ROOT_ROLE_MISSING, "root user does not have root role")                                      \
    X(AUTH_NOT_ENABLED, "authentication is not enabled")                                           \
    X(AUTH_FAILED, "authentication failed, invalid user ID or password")                           \
    X(AUTH_TOKEN_INVALID, "invalid auth token")                                                    \
    X(AUTH_OLD_REVISION, "revision of auth store is old")                                          \
    X(AUTH_MANAGEMENT_INVALID, "invalid auth management")                                          \
    X(TOO_MANY_KEYS, "more keys than one lease may have, or one request delete")                   \
    X(FENCED, "a newer registration has taken its place")                                          \
    X(KEY_READ_ONLY, "the key belongs to the service registry and cannot be written")

enum status {
#define STATUS_ENUM(name, text) STATUS_##name,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
        STATUS_COUNT
};

/* The text of a status, for people. Never NULL. */
const char *status_text(enum status status);

#endif
