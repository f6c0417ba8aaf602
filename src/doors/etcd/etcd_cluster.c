/* The Cluster service. Headers here carry no revision, as in etcd. */
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_request.h"

#include <stdlib.h>

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
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_number(message, &linearizable);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else if (!etcd_call_is_user(call, "list of members")) {
        return;
    } else if (linearizable != 0) {
        etcd_call_read(call, message, NULL, 0, member_list_ready);
    } else {
        member_list_ready(call, message);
    }
}

/* --- Changes. --- */

/* Every answer lists the members as they are then; one about a member names it first. */
static void answer_change(struct grpc_call *call, uint64_t member_id) {
    struct service_member members[MEMBERS_MAX];
    size_t n = members_of(call, members);
    const struct service_member *member = NULL;
    for (size_t i = 0; i < n; i++) {
        if (members[i].id == member_id) {
            member = &members[i];
        }
    }
    uint32_t list_field = member_id == 0 ? 2 : 3;
    struct etcd_header header = etcd_header_at(etcd_door_of(call), 0);
    size_t size = etcd_header_size(&header);
    if (member != NULL) {
        size += pb_message_size(2, member_size(member));
    }
    for (size_t i = 0; i < n; i++) {
        size += pb_message_size(list_field, member_size(&members[i]));
    }
    struct pb_writer writer;
    if (!etcd_answer_begin(call, size, &writer)) {
        return;
    }
    etcd_header_write(&writer, &header);
    if (member != NULL) {
        member_write(&writer, 2, member);
    }
    for (size_t i = 0; i < n; i++) {
        member_write(&writer, list_field, &members[i]);
    }
    etcd_answer_finish(call, &writer);
}

/* A change that is waited for. It belongs to the service until it is done. */
struct change_call {
    struct service_change change;
    struct grpc_call *call; /* NULL: the client went away */
    struct etcd_door *door;
    bool is_add;
};

static void change_done(struct service_change *change, enum status status) {
    struct change_call *waiting = list_entry(change, struct change_call, change);
    if (waiting->call != NULL) {
        grpc_call_set_data(waiting->call, NULL);
        const struct etcd_error *error = etcd_error_of_command(status);
        if (error != NULL) {
            etcd_error_finish(waiting->call, error);
        } else {
            answer_change(waiting->call, waiting->is_add ? change->id : 0);
        }
    }
    waiting->door->stats.requests--;
    free(waiting);
}

static void change_closed(struct grpc_call *call) {
    struct change_call *waiting = grpc_call_data(call);
    if (waiting != NULL) {
        waiting->call = NULL;
    }
}

static void change(struct grpc_call *call, struct bytes message, enum member_action action) {
    struct member_facts facts;
    if (etcd_call_refused(call) || !etcd_call_is_root(call, "change of the members")) {
        return;
    }
    const struct etcd_error *error = etcd_request_member(message, action, &facts);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    struct change_call *waiting = calloc(1, sizeof *waiting);
    if (waiting == NULL) {
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    waiting->call = call;
    waiting->door = etcd_door_of(call);
    waiting->is_add = action == MEMBER_ADD;
    waiting->change.done = change_done;
    waiting->door->stats.requests++;
    grpc_call_set_data(call, waiting);
    service_change_members(waiting->door->service, etcd_caller(call), &waiting->change, action,
                           &facts);
}

static void on_member_add(struct grpc_call *call, struct bytes message) {
    change(call, message, MEMBER_ADD);
}

static void on_member_remove(struct grpc_call *call, struct bytes message) {
    change(call, message, MEMBER_REMOVE);
}

static void on_member_update(struct grpc_call *call, struct bytes message) {
    change(call, message, MEMBER_UPDATE);
}

static void on_member_promote(struct grpc_call *call, struct bytes message) {
    change(call, message, MEMBER_PROMOTE);
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Cluster/MemberList",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_member_list,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.Cluster/MemberAdd",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_member_add,
     .on_close = change_closed},
    {.path = "/etcdserverpb.Cluster/MemberRemove",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_member_remove,
     .on_close = change_closed},
    {.path = "/etcdserverpb.Cluster/MemberUpdate",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_member_update,
     .on_close = change_closed},
    {.path = "/etcdserverpb.Cluster/MemberPromote",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_member_promote,
     .on_close = change_closed},
};
const struct etcd_methods etcd_cluster_methods = {methods, sizeof methods / sizeof methods[0]};
