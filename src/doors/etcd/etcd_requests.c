/*
 * Every method of etcd's API, and what its caller needs when authentication is on (etcd's own
 * rules: admin methods need the root role, the others the permission on the keys they name).
 */
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_gateway_methods.h"

#define GATEWAY_REQUESTS(path_behind, method_path, right)                                          \
    {"POST /v3" path_behind, right}, {"POST /v3beta" path_behind, right},

const struct door_request etcd_requests[] = {
    {"/etcdserverpb.KV/Range", DOOR_RIGHT_READ},
    {"/etcdserverpb.KV/Put", DOOR_RIGHT_WRITE},
    {"/etcdserverpb.KV/DeleteRange", DOOR_RIGHT_WRITE},
    {"/etcdserverpb.KV/Txn", DOOR_RIGHT_READ_WRITE},
    {"/etcdserverpb.KV/Compact", DOOR_RIGHT_USER}, /* that may write any key */
    {"/etcdserverpb.Watch/Watch", DOOR_RIGHT_READ},
    {"/etcdserverpb.Lease/LeaseGrant", DOOR_RIGHT_USER},
    {"/etcdserverpb.Lease/LeaseRevoke", DOOR_RIGHT_WRITE},
    {"/etcdserverpb.Lease/LeaseKeepAlive", DOOR_RIGHT_WRITE},
    {"/etcdserverpb.Lease/LeaseTimeToLive", DOOR_RIGHT_READ},
    {"/etcdserverpb.Lease/LeaseLeases", DOOR_RIGHT_USER},
    {"/etcdserverpb.Cluster/MemberList", DOOR_RIGHT_USER},
    {"/etcdserverpb.Cluster/MemberAdd", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Cluster/MemberRemove", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Cluster/MemberUpdate", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Cluster/MemberPromote", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Maintenance/Alarm", DOOR_RIGHT_USER},
    {"/etcdserverpb.Maintenance/Status", DOOR_RIGHT_USER},
    {"/etcdserverpb.Maintenance/Defragment", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Maintenance/Hash", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Maintenance/HashKV", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Maintenance/Snapshot", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Maintenance/MoveLeader", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Maintenance/Downgrade", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/AuthEnable", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/AuthDisable", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/AuthStatus", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/Authenticate", DOOR_RIGHT_NONE},
    {"/etcdserverpb.Auth/UserAdd", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/UserGet", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/UserList", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/UserDelete", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/UserChangePassword", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/UserGrantRole", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/UserRevokeRole", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/RoleAdd", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/RoleGet", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/RoleList", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/RoleDelete", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/RoleGrantPermission", DOOR_RIGHT_ROOT},
    {"/etcdserverpb.Auth/RoleRevokePermission", DOOR_RIGHT_ROOT},
    {"/v3lockpb.Lock/Lock", DOOR_RIGHT_READ_WRITE},
    {"/v3lockpb.Lock/Unlock", DOOR_RIGHT_READ_WRITE},
    {"/v3electionpb.Election/Campaign", DOOR_RIGHT_READ_WRITE},
    {"/v3electionpb.Election/Proclaim", DOOR_RIGHT_READ_WRITE},
    {"/v3electionpb.Election/Leader", DOOR_RIGHT_READ},
    {"/v3electionpb.Election/Observe", DOOR_RIGHT_READ},
    {"/v3electionpb.Election/Resign", DOOR_RIGHT_READ_WRITE},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", DOOR_RIGHT_USER},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", DOOR_RIGHT_USER},
    {"/grpc.health.v1.Health/Check", DOOR_RIGHT_NONE},
    {"/grpc.health.v1.Health/Watch", DOOR_RIGHT_NONE},
    ETCD_GATEWAY_METHODS(GATEWAY_REQUESTS) /* the same methods as JSON */
    {NULL, DOOR_RIGHT_NONE},
};
