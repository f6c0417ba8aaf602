/* The Auth service of an etcd that has no users and no roles and whose authentication is off: the
 * same answers and the same errors. Nothing can be added to it. */
#include "doors/etcd/etcd_call.h"

static const struct etcd_error user_not_found = {GRPC_FAILED_PRECONDITION,
                                                 "etcdserver: user name not found"};
static const struct etcd_error role_not_found = {GRPC_FAILED_PRECONDITION,
                                                 "etcdserver: role name not found"};
static const struct etcd_error no_root_user = {GRPC_FAILED_PRECONDITION,
                                               "etcdserver: root user does not exist"};
static const struct etcd_error not_enabled = {GRPC_FAILED_PRECONDITION,
                                              "etcdserver: authentication is not enabled"};
static const struct etcd_error not_supported = {
    GRPC_UNIMPLEMENTED, "leased: users and roles are not supported by this version"};

/* No users, no roles, not enabled: each of these answers is its header. */
static void answer_nothing(struct grpc_call *call, struct bytes message) {
    (void)message;
    etcd_answer_header(call, etcd_header_now(etcd_door_of(call)));
}

static void refuse_user(struct grpc_call *call, struct bytes message) {
    (void)message;
    etcd_error_finish(call, &user_not_found);
}

static void refuse_role(struct grpc_call *call, struct bytes message) {
    (void)message;
    etcd_error_finish(call, &role_not_found);
}

static void refuse_enabling(struct grpc_call *call, struct bytes message) {
    (void)message;
    etcd_error_finish(call, &no_root_user);
}

static void refuse_login(struct grpc_call *call, struct bytes message) {
    (void)message;
    etcd_error_finish(call, &not_enabled);
}

static void refuse_adding(struct grpc_call *call, struct bytes message) {
    (void)message;
    etcd_error_finish(call, &not_supported);
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Auth/AuthEnable", .on_message = refuse_enabling},
    {.path = "/etcdserverpb.Auth/AuthDisable", .on_message = answer_nothing},
    {.path = "/etcdserverpb.Auth/AuthStatus", .on_message = answer_nothing},
    {.path = "/etcdserverpb.Auth/Authenticate", .on_message = refuse_login},
    {.path = "/etcdserverpb.Auth/UserAdd", .on_message = refuse_adding},
    {.path = "/etcdserverpb.Auth/UserGet", .on_message = refuse_user},
    {.path = "/etcdserverpb.Auth/UserList", .on_message = answer_nothing},
    {.path = "/etcdserverpb.Auth/UserDelete", .on_message = refuse_user},
    {.path = "/etcdserverpb.Auth/UserChangePassword", .on_message = refuse_user},
    {.path = "/etcdserverpb.Auth/UserGrantRole", .on_message = refuse_user},
    {.path = "/etcdserverpb.Auth/UserRevokeRole", .on_message = refuse_user},
    {.path = "/etcdserverpb.Auth/RoleAdd", .on_message = refuse_adding},
    {.path = "/etcdserverpb.Auth/RoleGet", .on_message = refuse_role},
    {.path = "/etcdserverpb.Auth/RoleList", .on_message = answer_nothing},
    {.path = "/etcdserverpb.Auth/RoleDelete", .on_message = refuse_role},
    {.path = "/etcdserverpb.Auth/RoleGrantPermission", .on_message = refuse_role},
    {.path = "/etcdserverpb.Auth/RoleRevokePermission", .on_message = refuse_role},
};
const struct etcd_methods etcd_auth_methods = {methods, sizeof methods / sizeof methods[0]};
