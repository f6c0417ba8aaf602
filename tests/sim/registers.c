/* Clients that write and read registers, each value once, and the check that what they saw could
 * have happened in one order (Gibbons and Korach: with unique values, a history of a register is
 * linearizable if and only if no two forward zones overlap and no backward zone lies in a forward
 * one). */
#include "call.h"
#include "clients.h"
#include "faults.h"
#include "node.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

enum { REGISTERS_MAX = 4, CLIENTS_MAX = 8 };

/* Everything known of one value: the write, and the reads that saw it. */
struct cluster {
    uint64_t value;
    uint64_t write_start_us;
    uint64_t first_end_us;  /* of the first of its operations to end */
    uint64_t last_start_us; /* of the last of its operations to start */
    bool is_acknowledged;
    bool is_read;
};

struct sim_register {
    struct cluster *clusters;
    size_t n;
    size_t capacity;
};

struct register_client {
    size_t number;
    struct node *node;
};

static struct sim_register registers[REGISTERS_MAX];
static struct register_client clients[CLIENTS_MAX];
static size_t n_the_registers;
static uint64_t newest_value;
static bool is_stopped;

static struct cluster *cluster_of(struct sim_register *reg, uint64_t value) {
    for (size_t i = reg->n; i > 0; i--) {
        if (reg->clusters[i - 1].value == value) {
            return &reg->clusters[i - 1];
        }
    }
    return NULL;
}

static struct cluster *cluster_add(struct sim_register *reg, uint64_t value, uint64_t start_us) {
    if (reg->n == reg->capacity) {
        reg->capacity = reg->capacity == 0 ? 256 : reg->capacity * 2;
        reg->clusters = realloc(reg->clusters, reg->capacity * sizeof *reg->clusters);
        if (reg->clusters == NULL) {
            abort();
        }
    }
    reg->clusters[reg->n] = (struct cluster){.value = value,
                                             .write_start_us = start_us,
                                             .first_end_us = UINT64_MAX,
                                             .last_start_us = start_us};
    return &reg->clusters[reg->n++];
}

static void ended(struct cluster *cluster, uint64_t start_us, uint64_t end_us) {
    if (end_us < cluster->first_end_us) {
        cluster->first_end_us = end_us;
    }
    if (start_us > cluster->last_start_us) {
        cluster->last_start_us = start_us;
    }
}

static void next(void *data);

static void again(struct register_client *client) {
    world_at(world_now_us() + random_delay(40 * WORLD_MS, 500 * WORLD_MS), next, client);
}

static void answered(struct call *call) {
    struct register_client *client = call->data;
    struct sim_register *reg = &registers[call->key[1] - '0'];
    if (call->status == STATUS_OK) {
        uint64_t value = call->type == CALL_PUT ? call->value : call->found;
        struct cluster *cluster = cluster_of(reg, value);
        if (cluster == NULL) {
            check_failed("register", "%s held %llu, which nobody wrote", call->key,
                         (unsigned long long)value);
        }
        ended(cluster, call->sent_us, world_now_us());
        cluster->is_acknowledged |= call->type == CALL_PUT;
        cluster->is_read |= call->type == CALL_GET;
    } else {
        client->node = clients_choose_node();
    }
    again(client);
}

static void next(void *data) {
    struct register_client *client = data;
    if (is_stopped) {
        return;
    }
    bool is_write = random_chance(400) && !faults_want_quiet();
    struct call *call = call_make(is_write ? CALL_PUT : CALL_GET);
    size_t number = random_below(n_the_registers);
    snprintf(call->key, sizeof call->key, "r%zu", number);
    call->answered = answered;
    call->data = client;
    if (call->type == CALL_PUT) {
        call->value = ++newest_value;
        cluster_add(&registers[number], call->value, world_now_us());
    }
    if (random_chance(100)) {
        client->node = clients_choose_node();
    }
    call_send(call, client->node);
}

void registers_start(size_t n_clients, size_t n_registers) {
    n_the_registers = n_registers;
    for (size_t i = 0; i < n_registers; i++) {
        /* The register without a value: written before everything. */
        ended(cluster_add(&registers[i], 0, 0), 0, 0);
    }
    for (size_t i = 0; i < n_clients; i++) {
        clients[i] = (struct register_client){.number = i, .node = clients_choose_node()};
        world_at(random_below(WORLD_SECOND), next, &clients[i]);
    }
}

void registers_stop(void) {
    is_stopped = true;
}

/* --- The check. --- */

struct zone {
    uint64_t from_us;
    uint64_t to_us;
    uint64_t value;
};

static int compare_zones(const void *a, const void *b) {
    const struct zone *left = a;
    const struct zone *right = b;
    return (left->from_us > right->from_us) - (left->from_us < right->from_us);
}

static void check_register(size_t number) {
    const struct sim_register *reg = &registers[number];
    struct zone *forward = calloc(reg->n, sizeof *forward);
    struct zone *backward = calloc(reg->n, sizeof *backward);
    size_t n_forward = 0;
    size_t n_backward = 0;
    if (forward == NULL || backward == NULL) {
        abort();
    }
    for (size_t i = 0; i < reg->n; i++) {
        const struct cluster *cluster = &reg->clusters[i];
        if (!cluster->is_acknowledged && !cluster->is_read && cluster->value != 0) {
            continue; /* it may never have happened */
        }
        if (cluster->first_end_us < cluster->write_start_us) {
            check_failed("register", "r%zu: %llu was read before it was written", number,
                         (unsigned long long)cluster->value);
        }
        if (cluster->first_end_us < cluster->last_start_us) {
            forward[n_forward++] = (struct zone){.from_us = cluster->first_end_us,
                                                 .to_us = cluster->last_start_us,
                                                 .value = cluster->value};
        } else {
            backward[n_backward++] = (struct zone){.from_us = cluster->last_start_us,
                                                   .to_us = cluster->first_end_us,
                                                   .value = cluster->value};
        }
    }
    qsort(forward, n_forward, sizeof *forward, compare_zones);
    for (size_t i = 0; i < n_forward; i++) {
        if (i > 0 && forward[i].from_us < forward[i - 1].to_us) {
            check_failed("register",
                         "r%zu is not linearizable: %llu was still read at %.3f s, %llu was there "
                         "at %.3f s",
                         number, (unsigned long long)forward[i - 1].value,
                         (double)forward[i - 1].to_us / WORLD_SECOND,
                         (unsigned long long)forward[i].value,
                         (double)forward[i].from_us / WORLD_SECOND);
        }
        for (size_t b = 0; b < n_backward; b++) {
            if (forward[i].from_us < backward[b].from_us && backward[b].to_us < forward[i].to_us) {
                check_failed("register",
                             "r%zu is not linearizable: %llu was read at %.3f s after %llu was "
                             "written at %.3f s",
                             number, (unsigned long long)forward[i].value,
                             (double)forward[i].to_us / WORLD_SECOND,
                             (unsigned long long)backward[b].value,
                             (double)backward[b].to_us / WORLD_SECOND);
            }
        }
    }
    free(forward);
    free(backward);
}

void registers_check(void) {
    for (size_t i = 0; i < n_the_registers; i++) {
        check_register(i);
    }
}
