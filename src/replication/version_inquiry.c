#include "replication/version_inquiry.h"

#include "base/clock.h"
#include "peers/peer_ask.h"
#include "replication/service_internal.h"

#include <inttypes.h>
#include <stdio.h>

/* From one inquiry to the next. */
enum { INQUIRY_INTERVAL_MS = 2000 };

static void fail(struct service *service, uint32_t version) {
    char reason[256];
    snprintf(reason, sizeof reason,
             "the cluster has version %" PRIu32 ", and this release of leased knows versions up to "
             "%" PRIu32 ": start a newer release on this member",
             version, versions_known(service));
    service_fail(service, STATUS_UNSUPPORTED, reason);
}

/* How many members must say so. In a cluster of two there is one other. */
static size_t n_needed(const struct service *service) {
    size_t n = member_table_count(state_machine_members(service->machine));
    n = n == 0 ? service->members.n_linked + 1 : n;
    size_t majority = n / 2 + 1;
    return members_are_proven(service) || n <= 2 ? 1 : majority;
}

static void answered(void *data, struct bytes body, const char *reason) {
    struct version_question *question = data;
    struct service *service = question->service;
    struct peer_frame frame;
    struct arena arena;
    question->ask = NULL;
    if (reason != NULL || service->closing || service->failed) {
        return;
    }
    arena_init(&arena);
    if (peer_frame_decode(PEER_MEMBERS, body, &arena, &frame) == STATUS_OK &&
        frame.members.cluster_id == service->options.cluster_id &&
        frame.members.cluster_version > versions_known(service) &&
        ++service->version_inquiry.n_newer >= n_needed(service)) {
        fail(service, frame.members.cluster_version);
    }
    arena_clear(&arena);
}

static bool is_under_way(const struct version_inquiry *inquiry) {
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        if (inquiry->questions[i].ask != NULL) {
            return true;
        }
    }
    return false;
}

void version_inquiry_start(struct service *service) {
    struct version_inquiry *inquiry = &service->version_inquiry;
    uint64_t now_ms = clock_boottime_ms();
    if (service->peers == NULL || service->closing || service->failed || is_under_way(inquiry) ||
        (inquiry->begun_ms != 0 &&
         clock_elapsed_ms(now_ms, inquiry->begun_ms) < INQUIRY_INTERVAL_MS)) {
        return;
    }
    inquiry->begun_ms = now_ms;
    inquiry->n_newer = 0;
    for (size_t i = 0; i < service->members.n_linked && i < MEMBERS_MAX; i++) {
        char address[PEER_ADDRESS_SIZE_MAX + 1];
        struct version_question *question = &inquiry->questions[i];
        if (members_address(service, service->members.linked[i], address)) {
            question->service = service;
            question->ask = peers_ask(service->peers, address, answered, question);
        }
    }
}

void version_inquiry_cancel(struct service *service) {
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        struct version_question *question = &service->version_inquiry.questions[i];
        if (question->ask != NULL) {
            peer_ask_cancel(question->ask);
            question->ask = NULL;
        }
    }
}
