/* /v1/agent: what this member says of itself. */
#include "doors/consul/consul_members.h"
#include "doors/consul/consul_node.h"
#include "doors/consul/consul_routes.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static bool check_user(struct consul_call *call) {
    enum status status =
        service_check_user(call->door->service, http_caller(call->exchange), "consul agent");
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
    }
    return status == STATUS_OK;
}

static void show_member(struct consul_call *call, const struct service_member *member) {
    struct consul_json *json = &call->json;
    char address[CONSUL_ADDRESS_SIZE];
    (void)consul_member_address(member, address);
    char *colon = strrchr(address, ':');
    int port = colon != NULL ? atoi(colon + 1) : 8301;
    if (colon != NULL) {
        *colon = 0;
    }
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "Name", member->name != NULL ? member->name : "");
    consul_json_set_chars(json, "Addr", address);
    consul_json_set_number(json, "Port", port);
    consul_json_name(json, "Tags");
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "role", "consul");
    consul_json_set_chars(json, "dc", call->door->datacenter);
    consul_member_show_id(json, "id", member);
    consul_json_end(json, '}');
    consul_json_set_number(json, "Status", member->is_started ? 1 : 4);
    consul_json_set_number(json, "ProtocolMin", 1);
    consul_json_set_number(json, "ProtocolMax", 5);
    consul_json_set_number(json, "ProtocolCur", 2);
    consul_json_set_number(json, "DelegateMin", 2);
    consul_json_set_number(json, "DelegateMax", 5);
    consul_json_set_number(json, "DelegateCur", 4);
    consul_json_end(json, '}');
}

void consul_agent_members(struct consul_call *call, struct bytes body) {
    struct service_member members[CONSUL_MEMBERS_MAX];
    (void)body;
    if (!check_user(call)) {
        return;
    }
    size_t n = consul_members(call->door, members);
    consul_json_begin(&call->json, '[');
    for (size_t i = 0; i < n; i++) {
        show_member(call, &members[i]);
    }
    consul_json_end(&call->json, ']');
    consul_call_reply(call, 200);
}

static void show_config(struct consul_call *call) {
    struct consul_json *json = &call->json;
    consul_json_name(json, "Config");
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "Datacenter", call->door->datacenter);
    consul_json_set_chars(json, "PrimaryDatacenter", call->door->datacenter);
    consul_json_set_chars(json, "NodeName", call->door->node);
    consul_json_set_text(json, "NodeID", consul_node_own_id(call));
    consul_json_set_chars(json, "Revision", "leased");
    consul_json_set_bool(json, "Server", true);
    consul_json_set_chars(json, "Version", CONSUL_VERSION);
    consul_json_end(json, '}');
}

static void show_stats(struct consul_call *call, const struct service_info *info) {
    struct consul_json *json = &call->json;
    char number[24];
    consul_json_name(json, "Stats");
    consul_json_begin(json, '{');
    consul_json_name(json, "consul");
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "leader", info->leader_id == info->member_id ? "true" : "false");
    consul_json_set_chars(json, "server", "true");
    consul_json_end(json, '}');
    consul_json_name(json, "raft");
    consul_json_begin(json, '{');
    snprintf(number, sizeof number, "%llu", (unsigned long long)info->applied_index);
    consul_json_set_chars(json, "applied_index", number);
    snprintf(number, sizeof number, "%llu", (unsigned long long)info->term);
    consul_json_set_chars(json, "term", number);
    consul_json_set_chars(json, "state",
                          info->leader_id == info->member_id ? "Leader" : "Follower");
    consul_json_end(json, '}');
    consul_json_end(json, '}');
}

static void show_meta(struct consul_call *call) {
    consul_json_name(&call->json, "Meta");
    consul_json_raw(&call->json, bytes_from_text(call->door->node_meta_text));
}

/* Where others would join it. */
static void show_debug_config(struct consul_call *call, const struct service_member *members,
                              size_t n) {
    struct service_info info;
    char address[CONSUL_ADDRESS_SIZE];
    char text[CONSUL_ADDRESS_SIZE + 8];
    service_info(call->door->service, &info);
    consul_json_name(&call->json, "DebugConfig");
    consul_json_begin(&call->json, '{');
    for (size_t i = 0; i < n; i++) {
        if (members[i].id == info.member_id) {
            snprintf(text, sizeof text, "tcp://%s", consul_member_address(&members[i], address));
            consul_json_set_chars(&call->json, "SerfAdvertiseAddrLAN", text);
        }
    }
    consul_json_end(&call->json, '}');
}

void consul_agent_self(struct consul_call *call, struct bytes body) {
    struct service_member members[CONSUL_MEMBERS_MAX];
    struct service_info info;
    (void)body;
    if (!check_user(call)) {
        return;
    }
    service_info(call->door->service, &info);
    size_t n = consul_members(call->door, members);
    consul_json_begin(&call->json, '{');
    show_config(call);
    consul_json_name(&call->json, "Coord");
    consul_json_null(&call->json);
    for (size_t i = 0; i < n; i++) {
        if (members[i].id == info.member_id) {
            consul_json_name(&call->json, "Member");
            show_member(call, &members[i]);
        }
    }
    show_stats(call, &info);
    show_debug_config(call, members, n);
    show_meta(call);
    consul_json_end(&call->json, '}');
    consul_call_reply(call, 200);
}

/* --- Metrics, in the form that Consul's agents have: those that mean the same here. --- */

static void show_gauge(struct consul_json *json, const char *name, int64_t value) {
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "Name", name);
    consul_json_set_number(json, "Value", value);
    consul_json_name(json, "Labels");
    consul_json_raw(json, bytes_from_text("{}"));
    consul_json_end(json, '}');
}

static void show_gauges(struct consul_call *call) {
    struct consul_json *json = &call->json;
    struct service_info info;
    const struct mallinfo2 memory = mallinfo2();
    service_info(call->door->service, &info);
    consul_json_name(json, "Gauges");
    consul_json_begin(json, '[');
    show_gauge(json, "consul.rpc.queries_blocking", (int64_t)call->door->n_waiting);
    show_gauge(json, "consul.runtime.alloc_bytes", (int64_t)(memory.uordblks + memory.hblkhd));
    show_gauge(json, "consul.server.isLeader", info.leader_id == info.member_id ? 1 : 0);
    consul_json_end(json, ']');
}

void consul_agent_metrics(struct consul_call *call, struct bytes body) {
    struct consul_json *json = &call->json;
    static const char *const none[] = {"Points", "Counters", "Samples"};
    char now[64];
    struct tm parts;
    const time_t seconds = time(NULL);
    (void)body;
    if (!check_user(call)) {
        return;
    }
    if (consul_call_has(call, "format")) {
        consul_call_fail(call, 415, "Prometheus' format is at /metrics of the client URLs");
        return;
    }
    strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S +0000 UTC", gmtime_r(&seconds, &parts));
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "Timestamp", now);
    show_gauges(call);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        consul_json_name(json, none[i]);
        consul_json_raw(json, bytes_from_text("[]"));
    }
    consul_json_end(json, '}');
    consul_call_reply(call, 200);
}
