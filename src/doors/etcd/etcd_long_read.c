#include "doors/etcd/etcd_long_read.h"

#include "core/snapshot.h"

#include <assert.h>
#include <stdlib.h>

static struct etcd_long_read *read_of(struct service_scan *scan) {
    return list_entry(scan, struct etcd_long_read, scan);
}

static void destroy(struct etcd_long_read *read) {
    if (read->kind->clear != NULL) {
        read->kind->clear(read);
    }
    read->waiting->door->whole_bytes -= read->whole_bytes;
    etcd_call_destroy(read->waiting);
    arena_clear(&read->arena);
    buffer_clear(&read->part);
    free(read);
}

static void end(struct etcd_long_read *read) {
    if (service_scan_end(&read->scan)) {
        destroy(read);
    }
}

static void finish(struct etcd_long_read *read, const struct etcd_error *error) {
    struct grpc_call *call = read->waiting->call;
    if (call != NULL && error != NULL) {
        etcd_error_finish(call, error);
    } else if (call != NULL) {
        grpc_call_finish(call, GRPC_OK, NULL);
    }
    end(read);
}

static size_t size_max(const struct etcd_long_read *read) {
    return read->kind->is_whole ? ETCD_OUTCOME_SIZE_MAX : ETCD_ANSWER_SIZE_MAX;
}

/* --- The worker. --- */

static void run(struct service_scan *scan) {
    struct etcd_long_read *read = read_of(scan);
    if (!read->is_measured) {
        read->is_measured = true;
        int64_t revision = key_view_revision(snapshot_view_keys(scan->view));
        read->header = (struct etcd_header){.identity = &read->identity, .revision = revision};
        read->status = read->kind->measure(read, &read->size);
        read->waits_for_memory = read->status == STATUS_OK && read->kind->is_whole &&
                                 read->size > ETCD_SHORT_READ_BYTES_MAX;
    }
    read->part.size = 0;
    if (read->status == STATUS_OK && !read->waits_for_memory && read->size <= size_max(read)) {
        read->kind->write(read);
    }
}

void etcd_long_read_reserve(struct etcd_long_read *read, size_t size, struct pb_writer *writer) {
    pb_writer_init(writer, buffer_reserve(&read->part, size), size);
}

void etcd_long_read_commit(struct etcd_long_read *read, struct pb_writer *writer) {
    assert(writer->at == writer->end);
    read->part.size += writer->size;
}

/* --- The loop. --- */

/* Reads can be requested faster than their answers are read: a client with a long queue gets no
 * more. */
static bool is_refused_for_room(struct etcd_long_read *read, const struct grpc_call *call) {
    if (read->size <= ETCD_SHORT_READ_BYTES_MAX || grpc_call_has_room(call)) {
        return false;
    }
    finish(read, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
    return true;
}

/* There is always memory for one. */
static void take_memory(struct etcd_long_read *read, const struct grpc_call *call) {
    struct etcd_door *door = read->waiting->door;
    bool is_too_much =
        door->whole_bytes > 0 && door->whole_bytes + read->size > ETCD_OUTCOME_SIZE_MAX;
    if (is_too_much || !grpc_call_has_room(call)) {
        finish(read, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    read->waits_for_memory = false;
    read->whole_bytes = read->size;
    door->whole_bytes += read->size;
    service_scan_continue(&read->scan);
}

static void ran(struct service_scan *scan) {
    struct etcd_long_read *read = read_of(scan);
    struct grpc_call *call = read->waiting->call;
    if (call == NULL) {
        end(read);
        return;
    }
    if (read->status != STATUS_OK) {
        finish(read, etcd_error_of(read->status));
        return;
    }
    if (read->size > size_max(read)) {
        finish(read, &etcd_error_answer_too_large);
        return;
    }
    if (read->waits_for_memory) {
        take_memory(read, call);
        return;
    }
    if (read->sent == 0 && is_refused_for_room(read, call)) {
        return;
    }
    if (read->sent == 0) {
        grpc_call_begin_message(call, read->size);
    }
    assert(read->part.size > 0);
    assert(read->part.size <= read->size - read->sent);
    grpc_call_append(call, bytes_of(read->part.data, read->part.size));
    read->sent += read->part.size;
    if (read->sent == read->size) {
        finish(read, NULL);
    } else if (grpc_call_is_writable(call)) {
        service_scan_continue(scan);
    }
}

/* A message that was begun is cut off: the client gets an error instead of the rest. */
static void revoked(struct service_scan *scan, enum status status) {
    finish(read_of(scan), etcd_error_of(status));
}

struct etcd_long_read *etcd_long_read_create(struct grpc_call *call,
                                             const struct etcd_long_read_kind *kind) {
    assert(kind->size >= sizeof(struct etcd_long_read));
    struct etcd_long_read *read = calloc(1, kind->size);
    if (read == NULL) {
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    struct etcd_call *waiting = etcd_call_create(call);
    if (waiting == NULL) {
        free(read);
        return NULL;
    }
    read->kind = kind;
    read->waiting = waiting;
    waiting->long_read = read;
    read->identity = *etcd_header_now(waiting->door).identity;
    arena_init(&read->arena);
    buffer_init(&read->part);
    read->scan = (struct service_scan){.run = run, .ran = ran, .revoked = revoked};
    return read;
}

void etcd_long_read_cancel(struct etcd_long_read *read, enum status status) {
    etcd_error_finish(read->waiting->call, etcd_error_of(status));
    destroy(read);
}

void etcd_long_read_start(struct etcd_long_read *read, const struct key_range *ranges,
                          size_t n_ranges) {
    struct grpc_call *call = read->waiting->call;
    enum status status = service_scan_start(read->waiting->door->service, etcd_caller(call),
                                            &read->scan, ranges, n_ranges);
    if (status != STATUS_PENDING) {
        etcd_long_read_cancel(read, status);
    }
}

void etcd_long_read_closed(struct etcd_long_read *read) {
    end(read);
}

void etcd_long_read_writable(struct etcd_long_read *read) {
    if (read->scan.private.state == SCAN_IDLE) {
        service_scan_continue(&read->scan);
    }
}
