#include "server/admission.h"

#include "base/clock.h"
#include "base/log.h"
#include "peers/peer_address.h"
#include "replication/join.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ASK_INTERVAL_MS = 250,
    /* A member may not have heard yet that this node was added. */
    UNKNOWN_MS_MAX = 5000,
    /* Members may be started together with this node, or after it. */
    SILENCE_MS_MAX = 60000,
    PROGRESS_MS = 5000
};

/* The addresses of all members but this one. */
static size_t others_of(const struct options *options, struct arena *arena,
                        const char *out_addresses[OPTIONS_MEMBERS_MAX]) {
    size_t n = 0;
    for (size_t i = 0; i < options->n_members; i++) {
        const struct options_member *member = &options->members[i];
        if (strcmp(member->name, options->name) != 0) {
            out_addresses[n++] = url_address(&member->peer_urls.urls[0], arena);
        }
    }
    return n;
}

static const struct member_facts *find_self(const struct options *options,
                                            const struct join_answer *answer) {
    const struct url_list *urls = &options->initial_advertise_peer_urls;
    for (size_t i = 0; i < answer->n; i++) {
        const struct member_facts *member = &answer->members[i];
        size_t n_same = 0;
        for (size_t u = 0; u < urls->n; u++) {
            for (size_t m = 0; m < member->n_peer_urls; m++) {
                n_same += bytes_equal(member->peer_urls[m], bytes_from_text(urls->texts[u]));
            }
        }
        if (n_same == urls->n && n_same == member->n_peer_urls) {
            return member;
        }
    }
    return NULL;
}

static char *text_of(struct bytes bytes, struct arena *arena) {
    char *text = arena_alloc(arena, bytes.size + 1);
    if (bytes.size > 0) {
        memcpy(text, bytes.data, bytes.size);
    }
    text[bytes.size] = '\0';
    return text;
}

static void keep_members(const struct join_answer *answer, struct arena *arena,
                         struct admission *out_admission) {
    out_admission->n_members = answer->n;
    for (size_t i = 0; i < answer->n; i++) {
        const struct member_facts *facts = &answer->members[i];
        const char **urls = arena_calloc(arena, facts->n_peer_urls + 1, sizeof *urls);
        for (size_t u = 0; u < facts->n_peer_urls; u++) {
            urls[u] = text_of(facts->peer_urls[u], arena);
        }
        char address[PEER_ADDRESS_SIZE_MAX + 1] = "";
        bool is_known = facts->n_peer_urls > 0 && peer_address_of_url(urls[0], address);
        out_admission->members[i] = (struct replication_member){
            .id = facts->id,
            .name = text_of(facts->name, arena),
            .address = is_known ? text_of(bytes_from_text(address), arena) : "",
            .peer_urls = urls};
    }
}

/* An empty data directory under an id that has been in use. */
static enum status fail_replaced(const struct options *options, uint64_t id, char *out_error,
                                 size_t error_size) {
    snprintf(out_error, error_size,
             "member %016" PRIx64 " has already been bootstrapped: the cluster runs and knows it, "
             "but this data directory is empty: the votes it gave and the writes it acknowledged "
             "are gone, so it must not go on "
             "under this id. If the old directory still exists, start with that one (--data-dir; "
             "is its disk mounted?). If it is lost: etcdctl member remove %" PRIx64 "; etcdctl "
             "member add %s --peer-urls=%s; then start with an empty directory and "
             "--initial-cluster-state=existing. If a majority of the members lost their data, no "
             "member can be removed: first start one that has its data with --force-new-cluster",
             id, id, options->name, options->initial_advertise_peer_urls.texts[0]);
    return STATUS_DATA_DIR_REPLACED;
}

/* The address answers for a cluster that was begun without this member: a node started as one of a
 * new cluster would wait for a majority that never comes. */
static bool is_other_cluster(const struct join_answer *answer, const struct options *options,
                             const struct identity *identity) {
    return answer->is_there && answer->n > 0 && answer->cluster_id != identity->cluster_id &&
           find_self(options, answer) == NULL;
}

static enum status fail_other_cluster(const struct options *options, const char *address,
                                      char *out_error, size_t error_size) {
    const char *url = options->initial_advertise_peer_urls.texts[0];
    snprintf(out_error, error_size,
             "%s, which --initial-cluster names, already runs in a cluster without this member, so "
             "no new cluster can be made with it. To join that cluster: etcdctl member add %s "
             "--peer-urls=%s; then start with --initial-cluster-state=existing. For a new cluster, "
             "correct --initial-cluster",
             address, options->name, url);
    return STATUS_MEMBER_NOT_ADDED;
}

/* This release could not apply what the members write. */
static enum status fail_too_old(const struct join_answer *answer, char *out_error,
                                size_t error_size) {
    snprintf(out_error, error_size,
             "the cluster has version %" PRIu32 ", and this release of leased knows versions up to "
             "%" PRIu32 ": start a newer release on this member",
             answer->cluster_version, answer->cluster_version_known);
    return STATUS_UNSUPPORTED;
}

/* Reads one answer. STATUS_PENDING: it does not know us. */
static enum status take_answer(const struct options *options, const struct join_answer *answer,
                               struct arena *arena, struct identity *out_identity,
                               struct admission *out_admission, char *out_error,
                               size_t error_size) {
    if (!answer->is_there || answer->n == 0) {
        return STATUS_PENDING;
    }
    /* A member that was added is known by its URLs, as in etcd; a token that somebody wrote down is
     * one more proof that it is this cluster that is meant. */
    bool has_token = strcmp(options->initial_cluster_token, OPTIONS_CLUSTER_TOKEN_DEFAULT) != 0;
    uint64_t token_hash = join_token_hash(options->initial_cluster_token);
    if (has_token && answer->token_hash != 0 && answer->token_hash != token_hash) {
        snprintf(out_error, error_size,
                 "the cluster that answers was made with another --initial-cluster-token than "
                 "\"%s\": check the token and the URLs in --initial-cluster",
                 options->initial_cluster_token);
        return STATUS_INVALID;
    }
    const struct member_facts *self = find_self(options, answer);
    if (self == NULL) {
        return STATUS_PENDING;
    }
    if (answer->cluster_version_known != 0) {
        return fail_too_old(answer, out_error, error_size);
    }
    if (self->is_started) {
        return fail_replaced(options, self->id, out_error, error_size);
    }
    *out_identity = (struct identity){
        .cluster_id = answer->cluster_id, .member_id = self->id, .is_joined = true};
    memcpy(out_identity->name, options->name, strlen(options->name) + 1);
    keep_members(answer, arena, out_admission);
    return STATUS_OK;
}

static void wait_a_moment(uv_timer_t *timer) {
    uv_close((uv_handle_t *)timer, NULL);
}

/* Why no member answered; preferably the reason of one that answered at all. */
static const char *why_not(const struct join_answer *answers, size_t n) {
    const char *reason = "they have not begun";
    for (size_t i = 0; i < n; i++) {
        if (answers[i].reason != NULL && strcmp(answers[i].reason, "connection refused") != 0) {
            return answers[i].reason;
        }
        reason = answers[i].reason != NULL ? answers[i].reason : reason;
    }
    return reason;
}

enum status admission_join(uv_loop_t *loop, const struct join_options *proof,
                           const struct options *options, struct arena *arena,
                           struct identity *out_identity, struct admission *out_admission,
                           char *out_error, size_t error_size) {
    const char *addresses[OPTIONS_MEMBERS_MAX];
    struct join_answer answers[OPTIONS_MEMBERS_MAX];
    size_t n = others_of(options, arena, addresses);
    if (n == 0) {
        snprintf(out_error, error_size,
                 "--initial-cluster-state=existing joins a cluster: --initial-cluster must name "
                 "its members, to be asked");
        return STATUS_INVALID;
    }
    uint64_t begun_ms = clock_boottime_ms();
    uint64_t told_ms = begun_ms;
    uint64_t first_answer_ms = 0;
    for (;;) {
        join_ask(loop, proof, addresses, n, 0, arena, answers);
        uint64_t now_ms = clock_boottime_ms();
        for (size_t i = 0; i < n; i++) {
            enum status status = take_answer(options, &answers[i], arena, out_identity,
                                             out_admission, out_error, error_size);
            if (status != STATUS_PENDING) {
                return status;
            }
            if (answers[i].is_there && answers[i].n > 0 && first_answer_ms == 0) {
                first_answer_ms = now_ms;
            }
        }
        if (first_answer_ms != 0 && clock_elapsed_ms(now_ms, first_answer_ms) > UNKNOWN_MS_MAX) {
            snprintf(out_error, error_size,
                     "the cluster has no member with the peer URL %s: this member was never added, "
                     "or with another URL. Add it: etcdctl member add %s --peer-urls=%s; then "
                     "start again",
                     options->initial_advertise_peer_urls.texts[0], options->name,
                     options->initial_advertise_peer_urls.texts[0]);
            return STATUS_MEMBER_NOT_ADDED;
        }
        if (first_answer_ms == 0 && clock_elapsed_ms(now_ms, begun_ms) > SILENCE_MS_MAX) {
            snprintf(
                out_error, error_size,
                "no member in --initial-cluster answered for its cluster within %d s (%s). "
                "Check that they run, that the peer URLs are right, and that this member was added "
                "(etcdctl member add %s --peer-urls=%s): a cluster of one node whose "
                "--listen-peer-urls is the default opens its peer port only then",
                SILENCE_MS_MAX / 1000, why_not(answers, n), options->name,
                options->initial_advertise_peer_urls.texts[0]);
            return STATUS_TIMED_OUT;
        }
        if (clock_elapsed_ms(now_ms, told_ms) > PROGRESS_MS) {
            told_ms = now_ms;
            log_info("waiting for a member of the cluster to answer",
                     LOG_NUMBER("members asked", n), LOG_TEXT("reason", why_not(answers, n)));
        }
        uv_timer_t timer;
        uv_timer_init(loop, &timer);
        uv_timer_start(&timer, wait_a_moment, ASK_INTERVAL_MS, 0);
        uv_run(loop, UV_RUN_DEFAULT);
    }
}

enum status admission_check(uv_loop_t *loop, const struct join_options *proof,
                            const struct options *options, const struct identity *identity,
                            char *out_error, size_t error_size) {
    struct arena arena;
    arena_init(&arena);
    const char *addresses[OPTIONS_MEMBERS_MAX];
    struct join_answer answers[OPTIONS_MEMBERS_MAX];
    size_t n = others_of(options, &arena, addresses);
    join_ask(loop, proof, addresses, n, identity->member_id, &arena, answers);
    /* A cluster of an earlier release knows this node by another id. */
    struct identity legacy;
    identity_make_legacy(&legacy, options);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        bool is_legacy = answers[i].cluster_id == legacy.cluster_id;
        bool is_ours =
            answers[i].is_there && (is_legacy || answers[i].cluster_id == identity->cluster_id);
        uint64_t id = is_legacy ? legacy.member_id : identity->member_id;
        bool has_been_here = false;
        for (size_t m = 0; is_ours && m < answers[i].n; m++) {
            has_been_here |= answers[i].members[m].id == id && answers[i].members[m].is_started;
        }
        if (has_been_here) {
            status = fail_replaced(options, id, out_error, error_size);
        } else if (is_ours && answers[i].is_removed) {
            snprintf(out_error, error_size,
                     "member %016" PRIx64 " was removed from the cluster. To take part again it "
                     "must be added (etcdctl member add %s --peer-urls=%s) and started with "
                     "--initial-cluster-state=existing",
                     id, options->name, options->initial_advertise_peer_urls.texts[0]);
            status = STATUS_MEMBER_REMOVED;
        } else if (is_other_cluster(&answers[i], options, identity)) {
            status = fail_other_cluster(options, addresses[i], out_error, error_size);
        }
    }
    arena_clear(&arena);
    return status;
}

enum status admission_check_forced(uv_loop_t *loop, const struct join_options *proof,
                                   const struct options *options, const struct identity *identity,
                                   char *out_error, size_t error_size) {
    struct arena arena;
    arena_init(&arena);
    const char *addresses[OPTIONS_MEMBERS_MAX];
    struct join_answer answers[OPTIONS_MEMBERS_MAX];
    size_t n = others_of(options, &arena, addresses);
    join_ask(loop, proof, addresses, n, identity->member_id, &arena, answers);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        if (answers[i].is_there && answers[i].cluster_id == identity->cluster_id) {
            snprintf(out_error, error_size,
                     "--force-new-cluster: the member at %s runs and belongs to this cluster. If "
                     "the cluster has a majority, start without the flag. If not, stop that member "
                     "for good first; it can be added again with an empty directory",
                     addresses[i]);
            status = STATUS_INVALID;
        }
    }
    arena_clear(&arena);
    return status;
}
