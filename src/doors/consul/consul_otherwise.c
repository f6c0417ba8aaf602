/* What Consul's clients find here although leased does it otherwise, or not at all. */
#include "doors/consul/consul_members.h"
#include "doors/consul/consul_routes.h"

static bool check_user(struct consul_call *call) {
    enum status status =
        service_check_user(call->door->service, http_caller(call->exchange), "consul agent");
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
    }
    return status == STATUS_OK;
}

/* Members come and go by etcd's API or `lease member`; gossip there is none. */
static void refuse(struct consul_call *call) {
    consul_call_fail(call, 501, "not served by leased: see docs/doors/consul.md");
}

void consul_refused(struct consul_call *call, struct bytes body) {
    (void)body;
    if (check_user(call)) {
        refuse(call);
    }
}

/* There is no Connect. Programs that only wait until an agent is ready ask here, so they are told
 * that there is one root: it has no certificate, and its name says why. */
void consul_connect_roots(struct consul_call *call, struct bytes body) {
    struct consul_json *json = &call->json;
    (void)body;
    if (!check_user(call)) {
        return;
    }
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "ActiveRootID", "none");
    consul_json_set_chars(json, "TrustDomain", "");
    consul_json_name(json, "Roots");
    consul_json_begin(json, '[');
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "ID", "none");
    consul_json_set_chars(json, "Name", "Connect is not served by leased");
    consul_json_set_chars(json, "RootCert", "");
    consul_json_set_bool(json, "Active", false);
    consul_json_end(json, '}');
    consul_json_end(json, ']');
    consul_json_end(json, '}');
    consul_call_reply(call, 200);
}

void consul_connect_disabled(struct consul_call *call, struct bytes body) {
    (void)body;
    if (check_user(call)) {
        consul_call_fail(call, 501,
                         "Connect must be enabled in order to use this endpoint: leased does not "
                         "serve it");
    }
}

/* --- Members. --- */

static bool is_member(struct consul_call *call, struct bytes address, struct bytes name) {
    struct service_member members[CONSUL_MEMBERS_MAX];
    char text[CONSUL_ADDRESS_SIZE];
    size_t n = consul_members(call->door, members);
    for (size_t i = 0; i < n; i++) {
        struct bytes own = bytes_from_text(members[i].name != NULL ? members[i].name : "");
        if (bytes_equal(address, bytes_from_text(consul_member_address(&members[i], text))) ||
            (name.size > 0 && members[i].is_started && bytes_equal(name, own))) {
            return true;
        }
    }
    return name.size > 0 && bytes_equal(name, bytes_from_text(call->door->node));
}

/* To join a member is to be one already. */
void consul_agent_join(struct consul_call *call, struct bytes body) {
    (void)body;
    if (!check_user(call)) {
        return;
    }
    if (is_member(call, consul_call_path(call, "address"), bytes_of("", 0))) {
        consul_call_reply_empty(call, 200);
    } else {
        refuse(call);
    }
}

/* As in Consul one that is alive stays. */
void consul_agent_force_leave(struct consul_call *call, struct bytes body) {
    (void)body;
    if (!check_user(call)) {
        return;
    }
    if (is_member(call, bytes_of("", 0), consul_call_path(call, "node"))) {
        consul_call_reply_empty(call, 200);
    } else {
        refuse(call);
    }
}

void consul_raft_peer(struct consul_call *call, struct bytes body) {
    struct bytes address = consul_call_text(call, "address");
    (void)body;
    if (!check_user(call)) {
        return;
    }
    if (address.size > 0 && !is_member(call, address, bytes_of("", 0))) {
        consul_call_fail(call, 500, "address \"%.*s\" was not found in the Raft configuration",
                         (int)(address.size < 256 ? address.size : 256),
                         (const char *)address.data);
        return;
    }
    refuse(call);
}

/* There are no coordinates; there is one datacenter. */
void consul_coordinate_datacenters(struct consul_call *call, struct bytes body) {
    struct consul_json *json = &call->json;
    (void)body;
    if (!check_user(call)) {
        return;
    }
    consul_json_begin(json, '[');
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "Datacenter", call->door->datacenter);
    consul_json_set_chars(json, "AreaID", "wan");
    consul_json_name(json, "Coordinates");
    consul_json_raw(json, bytes_from_text("[]"));
    consul_json_end(json, '}');
    consul_json_end(json, ']');
    consul_call_reply(call, 200);
}

void consul_acl_disabled(struct consul_call *call, struct bytes body) {
    (void)body;
    if (check_user(call)) {
        consul_call_fail(call, 401, "ACL support disabled");
    }
}

void consul_empty_list(struct consul_call *call, struct bytes body) {
    (void)body;
    if (check_user(call)) {
        consul_json_raw(&call->json, bytes_from_text("[]"));
        consul_call_reply(call, 200);
    }
}

void consul_raft_configuration(struct consul_call *call, struct bytes body) {
    struct service_member members[CONSUL_MEMBERS_MAX];
    struct service_info info;
    char address[CONSUL_ADDRESS_SIZE];
    (void)body;
    if (!check_user(call)) {
        return;
    }
    service_info(call->door->service, &info);
    size_t n = consul_members(call->door, members);
    consul_json_begin(&call->json, '{');
    consul_json_name(&call->json, "Servers");
    consul_json_begin(&call->json, '[');
    for (size_t i = 0; i < n; i++) {
        consul_json_begin(&call->json, '{');
        consul_member_show_id(&call->json, "ID", &members[i]);
        consul_json_set_chars(&call->json, "Node", members[i].name != NULL ? members[i].name : "");
        consul_json_set_chars(&call->json, "Address", consul_member_address(&members[i], address));
        consul_json_set_bool(&call->json, "Leader", members[i].id == info.leader_id);
        consul_json_set_chars(&call->json, "ProtocolVersion", "3");
        consul_json_set_bool(&call->json, "Voter", !members[i].is_learner);
        consul_json_end(&call->json, '}');
    }
    consul_json_end(&call->json, ']');
    consul_json_set_number(&call->json, "Index", (int64_t)info.applied_index);
    consul_json_end(&call->json, '}');
    consul_call_reply(call, 200);
}
