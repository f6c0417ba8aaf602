/* The Cluster service. Headers here carry no revision, as in etcd. */
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_request.h"

enum { MEMBERS_MAX = 64 };

static size_t urls_size(uint32_t field, const char *const *urls) {
    size_t size = 0;
    for (; urls != NULL && *urls != NULL; urls++) {
        size += pb_message_size(field, strlen(*urls));
    }
    return size;
}

static void urls_write(struct pb_writer *writer, uint32_t field, const char *const *urls) {
    for (; urls != NULL && *urls != NULL; urls++) {
        pb_write_element(writer, field, bytes_from_text(*urls));
    }
}

static size_t member_size(const struct service_member *member) {
    return pb_uint64_size(1, member->id) + pb_bytes_size(2, bytes_from_text(member->name)) +
           urls_size(3, member->peer_urls) + urls_size(4, member->client_urls) +
           pb_bool_size(5, member->is_learner);
}

static void member_write(struct pb_writer *writer, uint32_t field,
                         const struct service_member *member) {
    pb_write_message(writer, field, member_size(member));
    pb_write_uint64(writer, 1, member->id);
    pb_write_bytes(writer, 2, bytes_from_text(member->name));
    urls_write(writer, 3, member->peer_urls);
    urls_write(writer, 4, member->client_urls);
    pb_write_bool(writer, 5, member->is_learner);
}

static size_t members_of(struct grpc_call *call, struct service_member members[MEMBERS_MAX]) {
    size_t n = service_members(etcd_door_of(call)->service, members, MEMBERS_MAX);
    return n < MEMBERS_MAX ? n : MEMBERS_MAX;
}

static void member_list_ready(struct grpc_call *call, struct bytes message) {
    (void)message;
    struct service_member members[MEMBERS_MAX];
    size_t n = members_of(call, members);
    struct etcd_header header = etcd_header_at(etcd_door_of(call), 0);
    size_t size = etcd_header_size(&header);
    for (size_t i = 0; i < n; i++) {
        size += pb_message_size(2, member_size(&members[i]));
    }
    struct pb_writer writer;
    if (!etcd_answer_begin(call, size, &writer)) {
        return;
    }
    etcd_header_write(&writer, &header);
    for (size_t i = 0; i < n; i++) {
        member_write(&writer, 2, &members[i]);
    }
    etcd_answer_finish(call, &writer);
}

static void on_member_list(struct grpc_call *call, struct bytes message) {
    uint64_t linearizable;
    const struct etcd_error *error = etcd_request_number(message, &linearizable);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else if (linearizable != 0) {
        etcd_call_read(call, message, member_list_ready);
    } else {
        member_list_ready(call, message);
    }
}

/* --- Changes, which one node cannot make. --- */

static const struct service_member *find_member(const struct service_member *members, size_t n,
                                                uint64_t id) {
    for (size_t i = 0; i < n; i++) {
        if (members[i].id == id) {
            return &members[i];
        }
    }
    return NULL;
}

/* Answers what etcd would say first about the member a request names. `known`: the error when
 * there is such a member. */
static void refuse_change(struct grpc_call *call, struct bytes message,
                          const struct etcd_error *known) {
    struct service_member members[MEMBERS_MAX];
    size_t n = members_of(call, members);
    uint64_t id;
    const struct etcd_error *error = etcd_request_number(message, &id);
    if (error == NULL && find_member(members, n, id) == NULL) {
        error = &etcd_error_member_not_found;
    }
    etcd_error_finish(call, error != NULL ? error : known);
}

static void on_member_add(struct grpc_call *call, struct bytes message) {
    (void)message;
    etcd_error_finish(call, &etcd_error_members_fixed);
}

static void on_member_remove(struct grpc_call *call, struct bytes message) {
    refuse_change(call, message, &etcd_error_members_not_enough);
}

static void on_member_update(struct grpc_call *call, struct bytes message) {
    refuse_change(call, message, &etcd_error_members_fixed);
}

static void on_member_promote(struct grpc_call *call, struct bytes message) {
    refuse_change(call, message, &etcd_error_member_not_learner);
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Cluster/MemberList",
     .kind = GRPC_UNARY,
     .on_message = on_member_list,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Cluster/MemberAdd", .kind = GRPC_UNARY, .on_message = on_member_add},
    {.path = "/etcdserverpb.Cluster/MemberRemove",
     .kind = GRPC_UNARY,
     .on_message = on_member_remove},
    {.path = "/etcdserverpb.Cluster/MemberUpdate",
     .kind = GRPC_UNARY,
     .on_message = on_member_update},
    {.path = "/etcdserverpb.Cluster/MemberPromote",
     .kind = GRPC_UNARY,
     .on_message = on_member_promote},
};
const struct etcd_methods etcd_cluster_methods = {methods, sizeof methods / sizeof methods[0]};
