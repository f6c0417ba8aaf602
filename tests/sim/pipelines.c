/* Clients that send without waiting, each over one connection to one node, as those of ZooKeeper
 * do: what the log has of a connection is all that was sent up to some request, in its order, each
 * once, whoever leads and whatever a leader refuses (docs/decisions/0055). When a request fails,
 * its door withdraws what has not been handed on, and the connection is over.
 *
 * Leaders refuse proposals of other members for moments, as they do when too much is on its way. */
#include "clients.h"
#include "core/cluster_version.h"
#include "core/command.h"
#include "faults.h"
#include "node.h"
#include "replication/log_entry.h"
#include "replication/service_internal.h"
#include "users.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { CONNECTIONS_MAX = 100 * 1000, BURST_MAX = 3 };

struct pipeline {
    struct node *node;
    uint64_t generation; /* of its process */
    uint64_t connection; /* 0: none */
    uint64_t n_sent;
    struct list requests; /* on their way */
};

struct pipelined {
    struct service_request request;
    struct list link;
    struct pipeline *pipeline;
    uint64_t connection;
};

static struct pipeline pipelines[PIPELINES_MAX];
static uint64_t n_connections;
static uint64_t n_applied[CONNECTIONS_MAX]; /* requests, by connection */
static uint64_t n_applied_in_all;
static bool is_stopped;
static bool leaders_refuse;
static uint64_t refused_until_us;

static void next(void *data);

/* --- What the log has. --- */

static void check_command(const struct command *command) {
    command = command_inner(command);
    uint64_t numbers[2];
    if (command->type != COMMAND_PUT || command->put.value.size != sizeof numbers ||
        !bytes_equal(command->put.key, bytes_from_text("pipeline"))) {
        return;
    }
    memcpy(numbers, command->put.value.data, sizeof numbers);
    uint64_t *before = &n_applied[numbers[0]];
    if (numbers[1] != *before + 1) {
        check_failed("order", "request %llu of connection %llu is applied after request %llu",
                     (unsigned long long)numbers[1], (unsigned long long)numbers[0],
                     (unsigned long long)*before);
    }
    ++*before;
    n_applied_in_all++;
}

void pipelines_applied(const struct log_item *item) {
    struct log_entry_header header;
    struct reader reader;
    struct arena arena;
    if (n_connections == 0 || item->type != LOG_COMMAND ||
        log_entry_decode(bytes_of(item->bytes, item->size), &header, &reader) != STATUS_OK) {
        return;
    }
    arena_init(&arena);
    for (uint64_t i = 0; i < header.n_commands; i++) {
        struct command command;
        if (command_decode(&reader, &arena, &command) == STATUS_OK) {
            check_command(&command);
        }
    }
    arena_clear(&arena);
}

/* --- Leaders. --- */

enum status __real_proposals_propose(struct service *service, struct log_entry_header *header,
                                     struct bytes commands);
enum status __wrap_proposals_propose(struct service *service, struct log_entry_header *header,
                                     struct bytes commands);
enum status __wrap_proposals_propose(struct service *service, struct log_entry_header *header,
                                     struct bytes commands) {
    uint64_t now_us = node_now_us(node_current());
    if (leaders_refuse && now_us >= refused_until_us && random_chance(20)) {
        refused_until_us = now_us + random_delay(WORLD_MS, 20 * WORLD_MS);
    }
    return now_us < refused_until_us ? STATUS_TOO_MANY_REQUESTS
                                     : __real_proposals_propose(service, header, commands);
}

/* --- Clients. --- */

static void end_connection(struct pipeline *pipeline) {
    pipeline->connection = 0;
    for (struct list *node = pipeline->requests.next, *following; node != &pipeline->requests;
         node = following) {
        struct pipelined *pipelined = list_entry(node, struct pipelined, link);
        following = node->next;
        list_remove(node);
        list_init(node);
        /* What is handed on is behind the request that failed in the same log, or on the same link:
         * it is answered, and freed then. */
        if (service_withdraw(pipeline->node->service, &pipelined->request)) {
            free(pipelined);
        }
    }
}

static void done(struct service_request *request, const struct outcome *outcome) {
    struct pipelined *pipelined = list_entry(request, struct pipelined, request);
    struct pipeline *pipeline = pipelined->pipeline;
    list_remove(&pipelined->link);
    if (pipelined->connection == pipeline->connection && outcome->status != STATUS_OK) {
        trace("connection %llu is over: %s", (unsigned long long)pipeline->connection,
              status_text(outcome->status));
        end_connection(pipeline);
    }
    free(pipelined);
}

static void submit(struct pipeline *pipeline) {
    struct pipelined *pipelined = calloc(1, sizeof *pipelined);
    if (pipelined == NULL) {
        abort();
    }
    uint64_t numbers[2] = {pipeline->connection, ++pipeline->n_sent};
    struct command command = {.type = COMMAND_PUT};
    command.put.key = bytes_from_text("pipeline");
    command.put.value = bytes_of(numbers, sizeof numbers);
    *pipelined = (struct pipelined){
        .request.done = done, .pipeline = pipeline, .connection = pipeline->connection};
    list_append(&pipeline->requests, &pipelined->link);
    service_submit(pipeline->node->service, users_worker(), &pipelined->request, &command);
}

static bool is_connected(const struct pipeline *pipeline) {
    return pipeline->connection != 0 && pipeline->node->is_up &&
           pipeline->node->generation == pipeline->generation;
}

static void burst_read(struct node *node, void *data) {
    struct pipeline *pipeline = data;
    if (is_connected(pipeline) && pipeline->node == node && !node->service->closing) {
        for (uint64_t n = random_between(1, BURST_MAX); n > 0; n--) {
            submit(pipeline);
        }
    }
}

/* The requests of a process that ended are nobody's. */
static void connect_anew(struct pipeline *pipeline) {
    struct node *node = clients_choose_node();
    list_init(&pipeline->requests);
    pipeline->connection = 0;
    pipeline->node = node;
    /* The order is kept from this version of the cluster on. */
    if (node->is_up && node->service != NULL &&
        service_cluster_version(node->service) >= CLUSTER_VERSION_RULES &&
        n_connections + 1 < CONNECTIONS_MAX) {
        pipeline->generation = node->generation;
        pipeline->connection = ++n_connections;
        pipeline->n_sent = 0;
    }
}

static void next(void *data) {
    struct pipeline *pipeline = data;
    if (is_stopped) {
        return;
    }
    if (!is_connected(pipeline)) {
        connect_anew(pipeline);
    }
    if (is_connected(pipeline) && !faults_want_quiet()) {
        node_deliver(pipeline->node, burst_read, NULL, pipeline);
    }
    /* Now for a while one after the other, now with a pause. */
    bool pauses = random_chance(20) || !is_connected(pipeline);
    world_at(world_now_us() + (pauses ? random_delay(200 * WORLD_MS, WORLD_SECOND)
                                      : random_delay(WORLD_MS, 20 * WORLD_MS)),
             next, pipeline);
}

void pipelines_start(size_t n) {
    leaders_refuse = true;
    for (size_t i = 0; i < n; i++) {
        list_init(&pipelines[i].requests);
        world_at(random_below(WORLD_SECOND), next, &pipelines[i]);
    }
}

void pipelines_stop(void) {
    is_stopped = true;
    leaders_refuse = false;
    trace("%llu requests of %llu connections were applied", (unsigned long long)n_applied_in_all,
          (unsigned long long)n_connections);
}
