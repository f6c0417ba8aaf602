/* Clients of the sample door's rule (tests/doors): numbers of a queue are given out once and in
 * order, whatever happens to the nodes, and so are their fencing tokens. The tickets' leases are
 * never renewed. */
#include "call.h"
#include "clients.h"
#include "faults.h"
#include "node.h"
#include "sample_rules.h"
#include "world.h"

#include <stdlib.h>

enum { QUEUES_MAX = 2, CLIENTS_MAX = 4, TTL_MS_MAX = 5000 };

struct ticket {
    int64_t number;
    int64_t token;
    uint64_t sent_us;
    uint64_t answered_us;
};

struct queue {
    struct ticket *tickets;
    size_t n;
    size_t capacity;
};

struct ticket_client {
    struct node *node;
    size_t queue;
};

static struct queue queues[QUEUES_MAX];
static struct ticket_client clients[CLIENTS_MAX];
static bool is_stopped;

static void check_order(const struct ticket *a, const struct ticket *b) {
    if (a->number == b->number || (a->number < b->number) != (a->token < b->token)) {
        check_failed("ticket", "numbers %lld and %lld have the tokens %lld and %lld",
                     (long long)a->number, (long long)b->number, (long long)a->token,
                     (long long)b->token);
    }
    if (a->answered_us < b->sent_us && a->number > b->number) {
        check_failed("ticket", "number %lld was given out after %lld", (long long)b->number,
                     (long long)a->number);
    }
}

static void add(struct queue *queue, const struct ticket *ticket) {
    for (size_t i = 0; i < queue->n; i++) {
        check_order(&queue->tickets[i], ticket);
    }
    if (queue->n == queue->capacity) {
        queue->capacity = queue->capacity == 0 ? 64 : queue->capacity * 2;
        queue->tickets = realloc(queue->tickets, queue->capacity * sizeof *queue->tickets);
        if (queue->tickets == NULL) {
            abort();
        }
    }
    queue->tickets[queue->n++] = *ticket;
}

static void next(void *data);

static void again(struct ticket_client *client) {
    world_at(world_now_us() + random_delay(100 * WORLD_MS, WORLD_SECOND), next, client);
}

static void answered(struct call *call) {
    struct ticket_client *client = call->data;
    if (call->status == STATUS_OK) {
        struct reader reader;
        reader_init(&reader, bytes_of(call->rule_answer, call->rule_answer_size));
        struct ticket ticket = {.sent_us = call->sent_us, .answered_us = world_now_us()};
        ticket.number = reader_get_zigzag(&reader);
        ticket.token = reader_get_zigzag(&reader);
        add(&queues[client->queue], &ticket);
    } else {
        client->node = clients_choose_node();
    }
    again(client);
}

static void next(void *data) {
    struct ticket_client *client = data;
    if (is_stopped) {
        return;
    }
    if (faults_want_quiet()) {
        again(client);
        return;
    }
    struct call *call = call_make(CALL_RULE);
    client->queue = random_below(QUEUES_MAX);
    call->rule_number = SAMPLE_RULE_TAKE;
    buffer_put_varint(&call->rule_request, random_between(1000, TTL_MS_MAX));
    buffer_put_bytes(&call->rule_request, bytes_from_text(client->queue == 0 ? "a" : "b"));
    call->answered = answered;
    call->data = client;
    call_send(call, client->node);
}

void tickets_start(size_t n_clients) {
    for (size_t i = 0; i < n_clients; i++) {
        clients[i] = (struct ticket_client){.node = clients_choose_node()};
        world_at(random_below(WORLD_SECOND), next, &clients[i]);
    }
}

void tickets_stop(void) {
    is_stopped = true;
}
