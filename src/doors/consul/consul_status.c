/* /v1/status: who leads, and who are the members. */
#include "doors/consul/consul_members.h"
#include "doors/consul/consul_routes.h"

static void reply_peers(struct consul_call *call, bool only_leader) {
    struct service_member members[CONSUL_MEMBERS_MAX];
    struct service_info info;
    size_t n = consul_members(call->door, members);
    char address[CONSUL_ADDRESS_SIZE];
    service_info(call->door->service, &info);
    if (!only_leader) {
        consul_json_begin(&call->json, '[');
    }
    for (size_t i = 0; i < n; i++) {
        if (!only_leader || members[i].id == info.leader_id) {
            consul_json_text(&call->json,
                             bytes_from_text(consul_member_address(&members[i], address)));
        }
    }
    if (only_leader && call->body.size == 0) {
        consul_json_text(&call->json, bytes_of("", 0));
    }
    if (!only_leader) {
        consul_json_end(&call->json, ']');
    }
    consul_call_reply(call, 200);
}

/* To be known is enough, whatever the rights. */
static bool check_user(struct consul_call *call) {
    enum status status =
        service_check_user(call->door->service, http_caller(call->exchange), "consul status");
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
    }
    return status == STATUS_OK && consul_call_check_dc(call);
}

void consul_status_leader(struct consul_call *call, struct bytes body) {
    (void)body;
    if (check_user(call)) {
        reply_peers(call, true);
    }
}

void consul_status_peers(struct consul_call *call, struct bytes body) {
    (void)body;
    if (check_user(call)) {
        reply_peers(call, false);
    }
}
