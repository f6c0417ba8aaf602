#include "replication/join.h"

#include "core/cluster_version.h"
#include "peers/peer_ask.h"
#include "replication/peer_frames.h"

#include <stdlib.h>
#include <string.h>

struct question {
    struct arena *arena;
    struct join_answer *answer;
    uint32_t cluster_version_known;
};

uint64_t join_token_hash(const char *token) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *at = token; *at != '\0'; at++) {
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    }
    return hash == 0 ? 1 : hash;
}

static void answered(void *data, struct bytes body, const char *reason) {
    struct question *question = data;
    if (reason != NULL) {
        question->answer->reason = reason;
        return;
    }
    /* Decoded from a copy: the members point into it. */
    struct bytes copy = bytes_of(arena_copy(question->arena, body.data, body.size), body.size);
    struct peer_frame frame;
    if (peer_frame_decode(PEER_MEMBERS, copy, question->arena, &frame) != STATUS_OK) {
        question->answer->reason = "the answer cannot be understood";
        return;
    }
    *question->answer = (struct join_answer){.is_there = true,
                                             .cluster_id = frame.members.cluster_id,
                                             .token_hash = frame.members.token_hash,
                                             .is_removed = frame.members.is_removed,
                                             .n = frame.members.n,
                                             .members = frame.members.members,
                                             .cluster_version = frame.members.cluster_version};
    if (frame.members.cluster_version > question->cluster_version_known) {
        question->answer->cluster_version_known = question->cluster_version_known;
    }
}

void join_ask(uv_loop_t *loop, const struct join_options *options, const char *const *addresses,
              size_t n, uint64_t id, struct arena *arena, struct join_answer *out_answers) {
    struct question *questions = calloc(n > 0 ? n : 1, sizeof *questions);
    if (questions == NULL) {
        abort();
    }
    memset(out_answers, 0, n * sizeof *out_answers);
    for (size_t i = 0; i < n; i++) {
        questions[i] =
            (struct question){.arena = arena,
                              .answer = &out_answers[i],
                              .cluster_version_known = options->cluster_version_known != 0
                                                           ? options->cluster_version_known
                                                           : CLUSTER_VERSION_KNOWN};
        struct peer_ask_options ask = {
            .address = addresses[i], .id = id, .tls = options->tls, .secret = options->secret};
        (void)peer_ask_start(loop, &ask, answered, &questions[i]);
    }
    uv_run(loop, UV_RUN_DEFAULT);
    free(questions);
}
