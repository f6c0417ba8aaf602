#include "cli/status_probe.h"

#include "base/clock.h"
#include "cli/cli_user.h"
#include "client/lease_client.h"
#include "proto/etcd_auth.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Without a quorum the number of leases cannot be read, and a node takes seconds to say so. */
enum { LEASES_TIMEOUT_MS = 1000, PROBLEM_SIZE = 512 };

struct probe {
    struct cli *cli;
    const struct endpoint *endpoint;
    const struct cli_user *user;
    struct lease_client *client; /* NULL: never made */
    size_t *n_open;              /* of all probes, those that are not over */
    uv_timer_t timer;            /* for the leases */
    bool is_up;
    bool is_over;
    bool is_logging_in;
    enum grpc_code code; /* of the answer that `problem` is from */
    char problem[PROBLEM_SIZE];
    uint64_t start_us;
    struct endpoint_status status;
};

static void finish(struct probe *probe) {
    if (probe->is_over) {
        return;
    }
    probe->is_over = true;
    uv_timer_stop(&probe->timer);
    (*probe->n_open)--;
    uv_stop(&probe->cli->loop);
}

static void fail(struct probe *probe, enum grpc_code code, const char *text) {
    probe->code = code;
    snprintf(probe->problem, sizeof probe->problem, "%s", text);
    finish(probe);
}

static void on_leases_late(uv_timer_t *timer) {
    struct probe *probe = timer->data;
    fail(probe, GRPC_DEADLINE_EXCEEDED, "");
}

static void on_leases(void *context, const struct lease_answer *answer) {
    struct probe *probe = context;
    if (answer->code != GRPC_OK) {
        fail(probe, answer->code, answer->text);
        return;
    }
    probe->status.n_leases = answer->leases->n_leases;
    probe->status.has_leases = true;
    finish(probe);
}

static void format_hex(uint64_t number, char room[STATUS_PROBE_HEX_SIZE]) {
    snprintf(room, STATUS_PROBE_HEX_SIZE, "%" PRIx64, number);
}

static void on_status(void *context, const struct lease_answer *answer) {
    struct probe *probe = context;
    struct endpoint_status *status = &probe->status;
    if (answer->code != GRPC_OK) {
        fail(probe, answer->code, answer->text);
        return;
    }
    const Etcdserverpb__StatusResponse *response = answer->status;
    status->latency_us = clock_boottime_us() - probe->start_us;
    endpoint_format(probe->endpoint, status->endpoint);
    snprintf(status->version, sizeof status->version, "%s", response->version);
    snprintf(status->cluster_version, sizeof status->cluster_version, "%s",
             response->storageversion);
    format_hex(response->leader, status->leader);
    status->has_leader = response->leader != 0;
    status->term = response->raftterm;
    status->db_size_bytes = response->dbsize;
    if (response->header != NULL) {
        format_hex(response->header->member_id, status->member);
        status->revision = response->header->revision;
    }
    probe->is_up = true;
    if (!status->has_leader || !lease_client_leases(probe->client, on_leases, probe)) {
        finish(probe);
        return;
    }
    uv_timer_start(&probe->timer, on_leases_late, LEASES_TIMEOUT_MS, 0);
}

static void ask(struct probe *probe) {
    probe->start_us = clock_boottime_us();
    if (!lease_client_status(probe->client, on_status, probe)) {
        fail(probe, GRPC_UNAVAILABLE, "the connection is closed");
    }
}

static void on_login(struct grpc_client_call *call, enum grpc_code code, const char *text,
                     struct bytes message) {
    struct probe *probe = *(struct probe **)grpc_client_call_room(call);
    if (code != GRPC_OK) {
        fail(probe, code, text);
        return;
    }
    Etcdserverpb__AuthenticateResponse *answer =
        etcdserverpb__authenticate_response__unpack(NULL, message.size, message.data);
    bool is_set = answer != NULL &&
                  grpc_client_set_token(lease_client_connection(probe->client), answer->token);
    etcdserverpb__authenticate_response__free_unpacked(answer, NULL);
    if (!is_set) {
        fail(probe, GRPC_INTERNAL, "the answer to the login could not be decoded");
        return;
    }
    probe->is_logging_in = false;
    ask(probe);
}

static void log_in(struct probe *probe) {
    static const struct grpc_client_method method = {
        .path = "/etcdserverpb.Auth/Authenticate", .unary = true, .on_end = on_login};
    Etcdserverpb__AuthenticateRequest request = ETCDSERVERPB__AUTHENTICATE_REQUEST__INIT;
    struct grpc_client_call *call =
        grpc_client_open(lease_client_connection(probe->client), &method, probe->cli->timeout_ms);
    if (call == NULL) {
        fail(probe, GRPC_UNAVAILABLE, "the connection is closed");
        return;
    }
    *(struct probe **)grpc_client_call_room(call) = probe;
    probe->is_logging_in = true;
    request.name = (char *)(uintptr_t)probe->user->name;
    request.password = (char *)(uintptr_t)probe->user->password;
    size_t size = etcdserverpb__authenticate_request__get_packed_size(&request);
    grpc_client_call_commit(call, etcdserverpb__authenticate_request__pack(
                                      &request, grpc_client_call_reserve(call, size)));
    grpc_client_call_half_close(call);
}

static void on_ready(void *context) {
    struct probe *probe = context;
    if (probe->user->name != NULL) {
        log_in(probe);
    } else {
        ask(probe);
    }
}

/* Every open call has ended before: this is the end of a probe whose connection never stood. */
static void on_closed(void *context, const char *reason) {
    struct probe *probe = context;
    if (!probe->is_over) {
        fail(probe, GRPC_UNAVAILABLE, reason);
    }
}

static void start(struct probe *probe) {
    struct cli *cli = probe->cli;
    struct grpc_client_options options =
        endpoint_options(&cli->endpoints, (size_t)(probe->endpoint - cli->endpoints.items));
    options.connect_timeout_ms = cli->timeout_ms;
    options.context = probe;
    options.on_ready = on_ready;
    options.on_closed = on_closed;
    uv_timer_init(&cli->loop, &probe->timer);
    probe->timer.data = probe;
    enum status status = lease_client_create(&cli->loop, &options, cli->timeout_ms, &probe->client);
    if (status != STATUS_OK) {
        char text[PROBLEM_SIZE];
        char where[ENDPOINT_TEXT_SIZE_MAX];
        snprintf(text, sizeof text, "%s: %s", endpoint_format(probe->endpoint, where),
                 status_text(status));
        fail(probe, GRPC_UNAVAILABLE, text);
    }
}

/* False: something is wrong with this endpoint, and standard error says what. */
static bool report(const struct probe *probe) {
    struct cli *cli = probe->cli;
    const struct endpoint_status *status = &probe->status;
    if (probe->is_up && status->has_leases) {
        return true;
    }
    /* A leader that has just lost its followers does not know it yet, or answers nothing. */
    bool lacks_quorum = probe->code == GRPC_OK || probe->code == GRPC_DEADLINE_EXCEEDED ||
                        probe->code == GRPC_UNAVAILABLE;
    if (probe->is_up && !status->has_leader) {
        fprintf(stderr,
                "lease: %s knows no leader: a majority of the members is not running or not "
                "reachable, so writes wait; start the others, or see --force-new-cluster in "
                "docs/operations.md\n",
                status->endpoint);
    } else if (probe->is_up && lacks_quorum) {
        fprintf(stderr,
                "lease: %s could not count the leases: its leader does not answer for a majority "
                "of the members; run this again in a moment\n",
                status->endpoint);
    } else if (probe->is_logging_in && lacks_quorum) {
        char where[ENDPOINT_TEXT_SIZE_MAX];
        fprintf(stderr,
                "lease: %s is up and does not answer the login: a majority of the members may not "
                "be running; start the others, use a client certificate (--cert), or see /health\n",
                endpoint_format(probe->endpoint, where));
    } else {
        cli->endpoint = probe->endpoint;
        cli_failed(cli, &(struct lease_answer){.code = probe->code, .text = probe->problem});
    }
    return false;
}

size_t status_probe_all(struct cli *cli, const struct cli_user *user,
                        struct endpoint_status out_statuses[ENDPOINTS_MAX], bool *out_is_all_well) {
    struct probe probes[ENDPOINTS_MAX];
    size_t n = cli->endpoints.n_items;
    size_t n_open = n;
    for (size_t i = 0; i < n; i++) {
        probes[i] = (struct probe){.cli = cli,
                                   .endpoint = &cli->endpoints.items[i],
                                   .user = user,
                                   .n_open = &n_open,
                                   .code = GRPC_OK};
        start(&probes[i]);
    }
    while (n_open > 0) {
        uv_run(&cli->loop, UV_RUN_ONCE);
    }
    for (size_t i = 0; i < n; i++) {
        lease_client_destroy(probes[i].client);
        uv_close((uv_handle_t *)&probes[i].timer, NULL);
    }
    uv_run(&cli->loop, UV_RUN_DEFAULT);
    size_t n_up = 0;
    *out_is_all_well = true;
    for (size_t i = 0; i < n; i++) {
        *out_is_all_well &= report(&probes[i]);
        if (probes[i].is_up) {
            out_statuses[n_up++] = probes[i].status;
        }
    }
    return n_up;
}
