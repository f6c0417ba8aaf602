/*
 * The methods that the JSON gateway offers: the path behind /v3 (and /v3beta, as etcd 3.5 has it),
 * the gRPC method that serves it, and the right of etcd_requests.c that the method needs. This is
 * the only list: routes and rights are made of it. The method's messages are found by its path in
 * the services that etcd_gateway.c names.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_GATEWAY_METHODS_H
#define LEASED_DOORS_ETCD_ETCD_GATEWAY_METHODS_H

/* clang-format off */
#define ETCD_GATEWAY_METHODS(X)                                                                    \
    X("/kv/range", "/etcdserverpb.KV/Range", DOOR_RIGHT_READ)                                      \
    X("/kv/put", "/etcdserverpb.KV/Put", DOOR_RIGHT_WRITE)                                         \
    X("/kv/deleterange", "/etcdserverpb.KV/DeleteRange", DOOR_RIGHT_WRITE)                         \
    X("/kv/txn", "/etcdserverpb.KV/Txn", DOOR_RIGHT_READ_WRITE)                                    \
    X("/kv/compaction", "/etcdserverpb.KV/Compact", DOOR_RIGHT_USER)                               \
    X("/watch", "/etcdserverpb.Watch/Watch", DOOR_RIGHT_READ)                                      \
    X("/lease/grant", "/etcdserverpb.Lease/LeaseGrant", DOOR_RIGHT_USER)                           \
    X("/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke", DOOR_RIGHT_WRITE)                        \
    X("/kv/lease/revoke", "/etcdserverpb.Lease/LeaseRevoke", DOOR_RIGHT_WRITE)                     \
    X("/lease/keepalive", "/etcdserverpb.Lease/LeaseKeepAlive", DOOR_RIGHT_WRITE)                  \
    X("/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive", DOOR_RIGHT_READ)                 \
    X("/kv/lease/timetolive", "/etcdserverpb.Lease/LeaseTimeToLive", DOOR_RIGHT_READ)              \
    X("/lease/leases", "/etcdserverpb.Lease/LeaseLeases", DOOR_RIGHT_USER)                         \
    X("/kv/lease/leases", "/etcdserverpb.Lease/LeaseLeases", DOOR_RIGHT_USER)                      \
    X("/cluster/member/list", "/etcdserverpb.Cluster/MemberList", DOOR_RIGHT_USER)                 \
    X("/cluster/member/add", "/etcdserverpb.Cluster/MemberAdd", DOOR_RIGHT_ROOT)                   \
    X("/cluster/member/remove", "/etcdserverpb.Cluster/MemberRemove", DOOR_RIGHT_ROOT)             \
    X("/cluster/member/update", "/etcdserverpb.Cluster/MemberUpdate", DOOR_RIGHT_ROOT)             \
    X("/cluster/member/promote", "/etcdserverpb.Cluster/MemberPromote", DOOR_RIGHT_ROOT)           \
    X("/maintenance/alarm", "/etcdserverpb.Maintenance/Alarm", DOOR_RIGHT_USER)                    \
    X("/maintenance/status", "/etcdserverpb.Maintenance/Status", DOOR_RIGHT_USER)                  \
    X("/maintenance/defragment", "/etcdserverpb.Maintenance/Defragment", DOOR_RIGHT_ROOT)          \
    X("/maintenance/hash", "/etcdserverpb.Maintenance/Hash", DOOR_RIGHT_ROOT)                      \
    X("/maintenance/hashkv", "/etcdserverpb.Maintenance/HashKV", DOOR_RIGHT_ROOT)                  \
    X("/maintenance/snapshot", "/etcdserverpb.Maintenance/Snapshot", DOOR_RIGHT_ROOT)              \
    X("/maintenance/transfer-leadership", "/etcdserverpb.Maintenance/MoveLeader", DOOR_RIGHT_ROOT) \
    X("/maintenance/downgrade", "/etcdserverpb.Maintenance/Downgrade", DOOR_RIGHT_ROOT)            \
    X("/auth/enable", "/etcdserverpb.Auth/AuthEnable", DOOR_RIGHT_ROOT)                            \
    X("/auth/disable", "/etcdserverpb.Auth/AuthDisable", DOOR_RIGHT_ROOT)                          \
    X("/auth/status", "/etcdserverpb.Auth/AuthStatus", DOOR_RIGHT_ROOT)                            \
    X("/auth/authenticate", "/etcdserverpb.Auth/Authenticate", DOOR_RIGHT_NONE)                    \
    X("/auth/user/add", "/etcdserverpb.Auth/UserAdd", DOOR_RIGHT_ROOT)                             \
    X("/auth/user/get", "/etcdserverpb.Auth/UserGet", DOOR_RIGHT_ROOT)                             \
    X("/auth/user/list", "/etcdserverpb.Auth/UserList", DOOR_RIGHT_ROOT)                           \
    X("/auth/user/delete", "/etcdserverpb.Auth/UserDelete", DOOR_RIGHT_ROOT)                       \
    X("/auth/user/changepw", "/etcdserverpb.Auth/UserChangePassword", DOOR_RIGHT_ROOT)             \
    X("/auth/user/grant", "/etcdserverpb.Auth/UserGrantRole", DOOR_RIGHT_ROOT)                     \
    X("/auth/user/revoke", "/etcdserverpb.Auth/UserRevokeRole", DOOR_RIGHT_ROOT)                   \
    X("/auth/role/add", "/etcdserverpb.Auth/RoleAdd", DOOR_RIGHT_ROOT)                             \
    X("/auth/role/get", "/etcdserverpb.Auth/RoleGet", DOOR_RIGHT_ROOT)                             \
    X("/auth/role/list", "/etcdserverpb.Auth/RoleList", DOOR_RIGHT_ROOT)                           \
    X("/auth/role/delete", "/etcdserverpb.Auth/RoleDelete", DOOR_RIGHT_ROOT)                       \
    X("/auth/role/grant", "/etcdserverpb.Auth/RoleGrantPermission", DOOR_RIGHT_ROOT)               \
    X("/auth/role/revoke", "/etcdserverpb.Auth/RoleRevokePermission", DOOR_RIGHT_ROOT)             \
    X("/lock/lock", "/v3lockpb.Lock/Lock", DOOR_RIGHT_READ_WRITE)                                  \
    X("/lock/unlock", "/v3lockpb.Lock/Unlock", DOOR_RIGHT_READ_WRITE)                              \
    X("/election/campaign", "/v3electionpb.Election/Campaign", DOOR_RIGHT_READ_WRITE)              \
    X("/election/proclaim", "/v3electionpb.Election/Proclaim", DOOR_RIGHT_READ_WRITE)              \
    X("/election/leader", "/v3electionpb.Election/Leader", DOOR_RIGHT_READ)                        \
    X("/election/observe", "/v3electionpb.Election/Observe", DOOR_RIGHT_READ)                      \
    X("/election/resign", "/v3electionpb.Election/Resign", DOOR_RIGHT_READ_WRITE)
/* clang-format on */

#endif
