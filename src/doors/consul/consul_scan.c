/* Lists that a worker writes from a view, in parts. */
#include "core/state_machine.h"
#include "doors/consul/consul_call_internal.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_show.h"

static struct consul_call *call_of(struct service_scan *scan) {
    return list_entry(scan, struct consul_call, scan);
}

/* --- The worker. --- */

static void run(struct service_scan *scan) {
    struct consul_call *call = call_of(scan);
    const struct consul_list *list = call->query->list;
    const struct key_store *keys = key_view_store(snapshot_view_keys(scan->view));
    call->body.size = 0;
    call->position.n_looked_at = 0;
    if (!call->position.is_begun) {
        list->index(call, keys);
        call->is_no_news = call->may_wait && !consul_call_is_news(call, keys, &call->wait_revision);
    }
    call->is_complete = !call->is_no_news && list->part(call, keys);
    arena_reset(&call->scratch);
}

/* --- The loop. --- */

void consul_scan_end(struct consul_call *call) {
    if (service_scan_end(&call->scan)) {
        call->is_scanning = false;
        consul_call_unpend(call);
    }
}

/* The answer is whole; it may be that of a list that turned out to be short. */
static void finish(struct consul_call *call) {
    if (call->is_started) {
        http_send(call->exchange, bytes_of(call->body.data, call->body.size));
        http_finish(call->exchange);
    } else {
        consul_call_reply(call, call->status);
    }
    consul_scan_end(call);
}

static void send_part(struct consul_call *call) {
    if (!call->is_started && call->has_unknown_selector) {
        consul_call_reply(call, call->status); /* which says so */
        consul_scan_end(call);
        return;
    }
    if (!call->is_started && !http_has_room(call->exchange)) {
        consul_call_fail_status(call, STATUS_TOO_MANY_REQUESTS);
        consul_scan_end(call);
        return;
    }
    if (!call->is_started && call->body.size > 0) {
        call->is_started = true;
        consul_call_start(call, call->status);
    }
    if (call->body.size > 0) {
        http_send(call->exchange, bytes_of(call->body.data, call->body.size));
    }
    if (http_is_writable(call->exchange)) {
        service_scan_continue(&call->scan);
    }
}

static void ran(struct service_scan *scan) {
    struct consul_call *call = call_of(scan);
    if (call->exchange == NULL) {
        consul_scan_end(call);
    } else if (call->is_no_news) {
        int64_t revision = call->wait_revision;
        call->is_no_news = false;
        call->n_pending++; /* it stays */
        consul_scan_end(call);
        call->n_pending--;
        consul_call_wait(call, revision);
    } else if (call->is_complete) {
        finish(call);
    } else {
        send_part(call);
    }
}

static void revoked(struct service_scan *scan, enum status status) {
    struct consul_call *call = call_of(scan);
    if (call->exchange != NULL && call->is_started) {
        http_abort(call->exchange);
    } else if (call->exchange != NULL) {
        consul_call_fail_status(call, status);
    }
    consul_scan_end(call);
}

void consul_scan_start(struct consul_call *call) {
    consul_list_begin(call);
    consul_call_detach(call);
    (void)consul_node_address(call);
    (void)consul_node_own_id(call);
    call->is_no_news = false;
    consul_call_start_scan(call, (struct service_scan){.run = run, .ran = ran, .revoked = revoked});
}

void consul_call_start_scan(struct consul_call *call, struct service_scan scan) {
    call->scan = scan;
    call->is_scanning = true;
    call->n_pending++;
    enum status status = service_scan_start(call->door->service, http_caller(call->exchange),
                                            &call->scan, call->ranges, call->n_ranges);
    if (status != STATUS_PENDING) {
        call->is_scanning = false;
        call->n_pending--;
        consul_call_fail_status(call, status);
    }
}

void consul_scan_go_on(struct consul_call *call) {
    if (call->is_scanning && call->is_started && call->scan.private.state == SCAN_IDLE) {
        service_scan_continue(&call->scan);
    }
}

void consul_scan_stop(struct consul_call *call) {
    if (call->is_scanning && call->scan.private.state != SCAN_RUNNING) {
        call->n_pending++; /* its exchange is being closed, which frees it */
        consul_scan_end(call);
        call->n_pending--;
    }
}
