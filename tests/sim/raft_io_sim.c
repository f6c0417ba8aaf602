#include "raft_io_sim.h"

#include "base/list.h"
#include "network.h"
#include "node.h"
#include "replication/service_internal.h"
#include "world.h"

#include <assert.h>
#include <raft.h>
#include <raft/uv.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST_TRANSFER = RAFT_CHANGE + 1, SNAPSHOT_GET_US = 3000, SNAPSHOT_PUT_US = 15000 };

enum write_type { WRITE_APPEND, WRITE_TRUNCATE, WRITE_SNAPSHOT };

/* Something on its way to the disk. Appends, truncations and snapshots from a leader end in the
 * order they began; a snapshot of our own is written beside them. */
struct write {
    struct list link;
    struct node *node;
    uint64_t generation;
    enum write_type type;
    bool is_done;
    raft_index index; /* of the first entry, or from which to truncate */
    struct disk_entry *entries;
    unsigned n;
    struct raft_io_append *append;
    raft_io_append_cb append_done;
    struct disk_snapshot *snapshot;
    unsigned trailing;
    struct raft_io_snapshot_put *put;
    raft_io_snapshot_put_cb put_done;
    int status;
};

struct raft_io_sim {
    struct node *node;
    struct raft_io *io;
    raft_io_tick_cb tick;
    raft_io_recv_cb recv;
    raft_io_close_cb closed;
    uv_timer_t timer;
    bool has_timer;
    raft_index next_index;
    uint64_t last_write_us; /* when the newest of the ordered writes ends */
    struct list writes;
    bool is_closing;
};

static struct raft_io_sim *sim_of(struct raft_io *io) {
    return io->impl;
}

static void *allocate(size_t n, size_t size) {
    void *memory = calloc(n > 0 ? n : 1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void *copy_bytes(const void *bytes, size_t size) {
    void *copy = allocate(size, 1);
    memcpy(copy, bytes, size);
    return copy;
}

static void *raft_copy_bytes(const void *bytes, size_t size) {
    void *copy = raft_malloc(size > 0 ? size : 1);
    if (copy == NULL) {
        abort();
    }
    memcpy(copy, bytes, size);
    return copy;
}

/* --- Writing. --- */

/* Makes it last. */
static void write_to_disk(struct write *write) {
    struct disk *disk = &write->node->disk;
    switch (write->type) {
    case WRITE_APPEND:
        assert(disk_last_index(disk) + 1 == write->index);
        for (unsigned i = 0; i < write->n; i++) {
            disk_append(disk, &write->entries[i]);
        }
        return;
    case WRITE_TRUNCATE:
        disk_truncate(disk, write->index);
        return;
    case WRITE_SNAPSHOT:
        if (write->trailing == 0) {
            disk_truncate(disk, disk->first_index);
            disk->first_index = write->snapshot->index + 1;
        } else if (write->snapshot->index > write->trailing) {
            disk_drop_before(disk, write->snapshot->index - write->trailing + 1);
        }
        disk_put_snapshot(disk, write->snapshot);
        write->snapshot = NULL;
        return;
    }
}

static void write_free(void *data) {
    struct write *write = data;
    for (unsigned i = 0; i < write->n; i++) {
        free(write->entries[i].bytes);
    }
    free(write->entries);
    if (write->snapshot != NULL) {
        raft_free(write->snapshot->configuration.base);
        free(write->snapshot->bytes);
        free(write->snapshot);
    }
    free(write);
}

static void write_told(struct node *node, void *data) {
    struct write told = *(struct write *)data;
    (void)node;
    write_free(data);
    if (told.append_done != NULL) {
        told.append_done(told.append, told.status);
    } else if (told.put_done != NULL) {
        told.put_done(told.put, told.status);
    }
}

static void write_ends(void *data) {
    struct write *write = data;
    struct node *node = write->node;
    if (write->is_done) {
        write_free(write);
        return;
    }
    assert(node->is_up);
    assert(node->generation == write->generation);
    if (node->disk.is_full) {
        return; /* it never ends; the crash will find it */
    }
    list_remove(&write->link);
    write->is_done = true;
    if (node->disk.is_failing) {
        write->status = RAFT_IOERR;
    } else {
        write_to_disk(write);
    }
    node_deliver(node, write_told, write_free, write);
}

static struct write *write_begin(struct raft_io_sim *sim, enum write_type type) {
    struct write *write = allocate(1, sizeof *write);
    write->node = sim->node;
    write->generation = sim->node->generation;
    write->type = type;
    list_append(&sim->writes, &write->link);
    return write;
}

static void write_in_order(struct raft_io_sim *sim, struct write *write) {
    uint64_t end_us = node_now_us(sim->node) + disk_write_us(&sim->node->disk);
    if (end_us <= sim->last_write_us) {
        end_us = sim->last_write_us + 1;
    }
    sim->last_write_us = end_us;
    world_at(end_us, write_ends, write);
}

static int sim_append(struct raft_io *io, struct raft_io_append *request,
                      const struct raft_entry *entries, unsigned n, raft_io_append_cb done) {
    struct raft_io_sim *sim = sim_of(io);
    struct write *write = write_begin(sim, WRITE_APPEND);
    write->index = sim->next_index;
    write->entries = allocate(n, sizeof *write->entries);
    write->n = n;
    for (unsigned i = 0; i < n; i++) {
        write->entries[i] =
            (struct disk_entry){.term = entries[i].term,
                                .type = entries[i].type,
                                .size = entries[i].buf.len,
                                .bytes = copy_bytes(entries[i].buf.base, entries[i].buf.len)};
    }
    write->append = request;
    write->append_done = done;
    sim->next_index += n;
    write_in_order(sim, write);
    return 0;
}

static int sim_truncate(struct raft_io *io, raft_index index) {
    struct raft_io_sim *sim = sim_of(io);
    if (index >= sim->next_index) {
        return 0;
    }
    struct write *write = write_begin(sim, WRITE_TRUNCATE);
    write->index = index;
    sim->next_index = index;
    write_in_order(sim, write);
    return 0;
}

static int sim_set_term(struct raft_io *io, raft_term term) {
    struct disk *disk = &sim_of(io)->node->disk;
    if (disk->is_failing || disk->is_full) {
        return disk->is_full ? RAFT_NOSPACE : RAFT_IOERR;
    }
    disk->term = term;
    disk->vote = 0;
    return 0;
}

static int sim_set_vote(struct raft_io *io, raft_id id) {
    struct disk *disk = &sim_of(io)->node->disk;
    if (disk->is_failing || disk->is_full) {
        return disk->is_full ? RAFT_NOSPACE : RAFT_IOERR;
    }
    disk->vote = id;
    return 0;
}

/* --- Snapshots. --- */

static int sim_snapshot_put(struct raft_io *io, unsigned trailing, struct raft_io_snapshot_put *put,
                            const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb done) {
    struct raft_io_sim *sim = sim_of(io);
    struct write *write = write_begin(sim, WRITE_SNAPSHOT);
    assert(snapshot->n_bufs == 1);
    write->snapshot = allocate(1, sizeof *write->snapshot);
    *write->snapshot =
        (struct disk_snapshot){.index = snapshot->index,
                               .term = snapshot->term,
                               .configuration_index = snapshot->configuration_index,
                               .size = snapshot->bufs[0].len,
                               .bytes = copy_bytes(snapshot->bufs[0].base, snapshot->bufs[0].len)};
    int rv = raft_configuration_encode(&snapshot->configuration, &write->snapshot->configuration);
    assert(rv == 0);
    write->trailing = trailing;
    write->put = put;
    write->put_done = done;
    if (trailing == 0) {
        sim->next_index = snapshot->index + 1;
        write_in_order(sim, write);
    } else {
        /* raft_uv lets what was to be written before come to its end first. */
        uint64_t start_us = node_now_us(sim->node);
        if (start_us < sim->last_write_us) {
            start_us = sim->last_write_us;
        }
        world_at(start_us + random_delay(SNAPSHOT_PUT_US, 2 * WORLD_SECOND), write_ends, write);
    }
    return 0;
}

static struct raft_snapshot *snapshot_load(const struct disk_snapshot *stored) {
    struct raft_snapshot *snapshot = raft_calloc(1, sizeof *snapshot);
    struct raft_buffer *buffer = raft_calloc(1, sizeof *buffer);
    if (snapshot == NULL || buffer == NULL) {
        abort();
    }
    *buffer = (struct raft_buffer){.base = raft_copy_bytes(stored->bytes, stored->size),
                                   .len = stored->size};
    snapshot->index = stored->index;
    snapshot->term = stored->term;
    snapshot->configuration_index = stored->configuration_index;
    raft_configuration_init(&snapshot->configuration);
    int rv = raft_configuration_decode(&stored->configuration, &snapshot->configuration);
    assert(rv == 0);
    snapshot->bufs = buffer;
    snapshot->n_bufs = 1;
    return snapshot;
}

struct get {
    struct node *node;
    uint64_t generation;
    struct raft_io_snapshot_get *request;
    raft_io_snapshot_get_cb done;
};

static void get_told(struct node *node, void *data) {
    struct get get = *(struct get *)data;
    free(data);
    if (node->io->is_closing || node->disk.snapshot == NULL) {
        get.done(get.request, NULL, RAFT_CANCELED);
    } else {
        get.done(get.request, snapshot_load(node->disk.snapshot), 0);
    }
}

static void get_ends(void *data) {
    struct get *get = data;
    if (!get->node->is_up || get->node->generation != get->generation) {
        free(get);
        return;
    }
    node_deliver(get->node, get_told, free, get);
}

static int sim_snapshot_get(struct raft_io *io, struct raft_io_snapshot_get *request,
                            raft_io_snapshot_get_cb done) {
    struct raft_io_sim *sim = sim_of(io);
    struct get *get = allocate(1, sizeof *get);
    *get = (struct get){
        .node = sim->node, .generation = sim->node->generation, .request = request, .done = done};
    world_at(node_now_us(sim->node) + random_delay(SNAPSHOT_GET_US, 200 * WORLD_MS), get_ends, get);
    return 0;
}

/* --- Messages. --- */

struct sent {
    struct raft_io_send *request;
    raft_io_send_cb done;
};

static void send_told(struct node *node, void *data) {
    struct sent sent = *(struct sent *)data;
    (void)node;
    free(data);
    sent.done(sent.request, 0);
}

static int sim_send(struct raft_io *io, struct raft_io_send *request,
                    const struct raft_message *message, raft_io_send_cb done) {
    struct raft_io_sim *sim = sim_of(io);
    struct node *to = node_by_id(message->server_id);
    if (to != NULL && to != sim->node) {
        network_send_raft(sim->node, to, message);
    }
    struct sent *sent = allocate(1, sizeof *sent);
    *sent = (struct sent){.request = request, .done = done};
    node_deliver(sim->node, send_told, free, sent);
    return 0;
}

void raft_io_sim_receive(struct node *node, struct raft_message *message) {
    struct raft_io_sim *sim = node->io;
    if (sim == NULL || sim->recv == NULL || sim->is_closing) {
        raft_message_drop(message);
        return;
    }
    /* What the message points to is raft's now. */
    sim->recv(sim->io, message);
    raft_free(message);
}

/* --- Starting. --- */

static int sim_init(struct raft_io *io, raft_id id, const char *address) {
    (void)io;
    (void)id;
    (void)address;
    return 0;
}

static void ticked(uv_timer_t *timer) {
    struct raft_io_sim *sim = timer->data;
    sim->tick(sim->io);
}

static int sim_start(struct raft_io *io, unsigned tick_ms, raft_io_tick_cb tick,
                     raft_io_recv_cb recv) {
    struct raft_io_sim *sim = sim_of(io);
    sim->tick = tick;
    sim->recv = recv;
    uv_timer_init(sim->node->loop, &sim->timer);
    sim->timer.data = sim;
    sim->has_timer = true;
    uv_timer_start(&sim->timer, ticked, tick_ms, tick_ms);
    return 0;
}

static int sim_bootstrap(struct raft_io *io, const struct raft_configuration *configuration) {
    struct disk *disk = &sim_of(io)->node->disk;
    if (disk->term != 0) {
        return RAFT_CANTBOOTSTRAP;
    }
    struct raft_buffer buffer;
    int rv = raft_configuration_encode(configuration, &buffer);
    assert(rv == 0);
    disk->term = 1;
    struct disk_entry entry = {
        .term = 1, .type = RAFT_CHANGE, .size = buffer.len, .bytes = buffer.base};
    disk_append(disk, &entry);
    raft_free(buffer.base);
    return 0;
}

static int sim_recover(struct raft_io *io, const struct raft_configuration *configuration) {
    (void)io;
    (void)configuration;
    return RAFT_IOERR;
}

static int sim_load(struct raft_io *io, raft_term *term, raft_id *vote,
                    struct raft_snapshot **snapshot, raft_index *start_index,
                    struct raft_entry **entries, size_t *n_entries) {
    struct raft_io_sim *sim = sim_of(io);
    struct disk *disk = &sim->node->disk;
    if (disk->is_failing) {
        return RAFT_IOERR;
    }
    *snapshot = NULL;
    if (disk->snapshot != NULL) {
        *snapshot = snapshot_load(disk->snapshot);
        if (disk_last_index(disk) < disk->snapshot->index) {
            disk_truncate(disk, disk->first_index);
            disk->first_index = disk->snapshot->index + 1;
        }
    }
    *term = disk->term;
    *vote = disk->vote;
    *start_index = disk->first_index;
    *n_entries = disk->n;
    *entries = NULL;
    if (disk->n > 0) {
        *entries = raft_calloc(disk->n, sizeof **entries);
        if (*entries == NULL) {
            abort();
        }
    }
    for (size_t i = 0; i < disk->n; i++) {
        (*entries)[i].term = disk->entries[i].term;
        (*entries)[i].type = (enum raft_entry_type)disk->entries[i].type;
        (*entries)[i].buf.len = disk->entries[i].size;
        (*entries)[i].buf.base = raft_copy_bytes(disk->entries[i].bytes, disk->entries[i].size);
        (*entries)[i].batch = (*entries)[i].buf.base;
    }
    sim->next_index = disk_last_index(disk) + 1;
    return 0;
}

static raft_time sim_time(struct raft_io *io) {
    return uv_now(sim_of(io)->node->loop);
}

static int sim_random(struct raft_io *io, int min, int max) {
    (void)io;
    return min + (int)random_below((uint64_t)(max - min));
}

/* --- Ending. --- */

static void close_told(struct node *node, void *data) {
    struct raft_io_sim *sim = data;
    (void)node;
    sim->closed(sim->io);
}

static void timer_closed(uv_handle_t *handle) {
    (void)handle;
}

/* Some prefix of what was under way has reached the disk. What is left of a write goes with the
 * event that was to end it. */
static void settle(struct raft_io_sim *sim) {
    size_t n_lasting = random_below(8);
    if (sim->node->disk.is_full || sim->node->disk.is_failing) {
        n_lasting = 0;
    }
    for (struct list *node; (node = list_pop_first(&sim->writes)) != NULL;) {
        struct write *write = list_entry(node, struct write, link);
        bool is_beside = write->type == WRITE_SNAPSHOT && write->trailing > 0;
        if (n_lasting > 0 && !is_beside) {
            write_to_disk(write);
            n_lasting--;
        }
        write->is_done = true;
        if (sim->is_closing) {
            struct write *told = allocate(1, sizeof *told);
            *told = (struct write){.append = write->append,
                                   .append_done = write->append_done,
                                   .put = write->put,
                                   .put_done = write->put_done,
                                   .status = RAFT_CANCELED};
            node_deliver(sim->node, write_told, write_free, told);
        }
    }
}

static void sim_close(struct raft_io *io, raft_io_close_cb closed) {
    struct raft_io_sim *sim = sim_of(io);
    sim->is_closing = true;
    sim->closed = closed;
    if (sim->has_timer) {
        uv_close((uv_handle_t *)&sim->timer, timer_closed);
    }
    settle(sim);
    node_deliver(sim->node, close_told, NULL, sim);
}

void raft_io_sim_crash(struct node *node) {
    if (node->io != NULL && !node->io->is_closing) {
        settle(node->io);
    }
    node->io = NULL;
}

/* --- In raft_uv's place. --- */

int raft_uv_init(struct raft_io *io, struct uv_loop_s *loop, const char *dir,
                 struct raft_uv_transport *transport) {
    (void)dir;
    (void)transport;
    struct raft_io_sim *sim = allocate(1, sizeof *sim);
    sim->node = node_of_loop(loop);
    sim->io = io;
    list_init(&sim->writes);
    sim->node->io = sim;
    io->version = 2;
    io->capacity = UINT16_MAX;
    io->impl = sim;
    io->init = sim_init;
    io->close = sim_close;
    io->load = sim_load;
    io->start = sim_start;
    io->bootstrap = sim_bootstrap;
    io->recover = sim_recover;
    io->set_term = sim_set_term;
    io->set_vote = sim_set_vote;
    io->send = sim_send;
    io->append = sim_append;
    io->truncate = sim_truncate;
    io->snapshot_put = sim_snapshot_put;
    io->snapshot_get = sim_snapshot_get;
    io->time = sim_time;
    io->random = sim_random;
    return 0;
}

void raft_uv_close(struct raft_io *io) {
    sim_of(io)->node->io = NULL;
}

void raft_uv_set_auto_recovery(struct raft_io *io, bool flag) {
    (void)io;
    assert(!flag);
}

void raft_uv_set_block_size(struct raft_io *io, size_t size) {
    (void)io;
    (void)size;
}

void raft_uv_set_segment_size(struct raft_io *io, size_t size) {
    (void)io;
    (void)size;
}

void raft_uv_set_tracer(struct raft_io *io, struct raft_tracer *tracer) {
    (void)io;
    (void)tracer;
}

void raft_uv_set_disk_retry(struct raft_io *io, unsigned ms) {
    (void)io;
    (void)ms;
}

void raft_uv_set_connect_retry_delay(struct raft_io *io, unsigned ms) {
    (void)io;
    (void)ms;
}

/* libraft leaves it to its io to call the callbacks of requests that are done. Its own function for
 * that is not exported; the queue and the requests are in its header. */
void raft_io_sim_fire(struct node *node) {
    struct raft_io_sim *sim = node->io;
    if (sim == NULL || sim->io->data == NULL) {
        return;
    }
    struct raft *raft = sim->io->data;
    void **queue = raft->legacy.requests;
    while (queue[0] != queue) {
        void **element = queue[0];
        ((void **)element[1])[0] = element[0];
        ((void **)element[0])[1] = element[1];
        struct raft_apply *apply = list_entry(element, struct raft_apply, queue);
        switch (apply->type) {
        case RAFT_COMMAND:
            apply->cb(apply, apply->status, apply->result);
            break;
        case RAFT_BARRIER: {
            struct raft_barrier *barrier = list_entry(element, struct raft_barrier, queue);
            barrier->cb(barrier, barrier->status);
            break;
        }
        case RAFT_CHANGE: {
            struct raft_change *change = list_entry(element, struct raft_change, queue);
            change->cb(change, change->status);
            break;
        }
        case REQUEST_TRANSFER: {
            struct raft_transfer *transfer = list_entry(element, struct raft_transfer, queue);
            transfer->cb(transfer);
            break;
        }
        default:
            abort();
        }
    }
}
