/* One engine and members that say anything: every message that the codec lets through, in any order
 * and of any sender, with terms and indices near to those that matter. Whatever they say, the
 * engine does not fail, what is applied stays, and a term does not leap.
 *
 *   model_raft_guards [seed] [number of runs] */
#include "../unit/raft_engine_fixture.h"
#include "model_random.h"

enum { RUNS = 150, MESSAGES = 400, PEERS = 5 };

static void check(bool is_well, const char *what, uint64_t seed) {
    if (!is_well) {
        printf("VIOLATION seed %" PRIu64 ": %s%s%s\n", seed, what, fixture.has_failed ? ": " : "",
               fixture.has_failed ? fixture.reason : "");
        fflush(stdout);
        _Exit(1);
    }
}

/* Near to what it is. */
static uint64_t near(uint64_t value) {
    uint64_t how = random_below(20);
    if (how == 0) {
        return random_below((UINT64_C(1) << 62));
    }
    uint64_t off = random_below(4);
    return random_one_in(3) ? (value > off ? value - off : 0)
                            : value + (random_one_in(2) ? off : 0);
}

static uint64_t any_term(void) {
    uint64_t term = near(raft_engine_term(fixture.engine));
    return term == 0 ? 1 : term;
}

static uint64_t any_index(void) {
    return near(random_one_in(2) ? raft_engine_last_index(fixture.engine)
                                 : raft_engine_applied_index(fixture.engine));
}

static const char *any_roles(void) {
    static const char *const roles[] = {"VVV", "VVVb", "V",     "-V",  "bVV",
                                        "VV",  "sVV",  "VVVVV", "-VVb"};
    return roles[random_below(sizeof roles / sizeof roles[0])];
}

/* As the codec lets it through: indices follow each other, terms do not decrease. */
static uint32_t make_items(struct message_append *append, struct log_item **items) {
    uint32_t n = random_one_in(2) ? 0 : (uint32_t)random_below(6);
    uint64_t term = append->prev_term == 0 ? 1 : append->prev_term;
    for (uint32_t i = 0; i < n; i++) {
        if (term < append->term && random_one_in(4)) {
            term += 1 + random_below(append->term - term);
        }
        term = term > append->term ? append->term : term;
        uint64_t index = append->prev_index + 1 + i;
        items[i] = index == 1 || random_one_in(6) ? fixture_change(index, term, any_roles())
                                                  : fixture_command(index, term);
    }
    return n;
}

static void receive_append(uint64_t from_id) {
    struct message_append append = {.term = any_term(), .prev_index = any_index()};
    const struct log_item *prev = raft_engine_item(fixture.engine, append.prev_index);
    append.prev_term = prev != NULL && !random_one_in(5) ? prev->term : any_term();
    if (append.prev_index == 0) {
        append.prev_term = 0;
    }
    append.commit = any_index();
    struct log_item *items[8];
    uint32_t n = make_items(&append, items);
    fixture_receive_append(from_id, append.term, append.prev_index, append.prev_term, append.commit,
                           items, n);
}

static void receive_any(uint64_t from_id) {
    struct raft_message_view view = {.kind = (enum raft_message_kind)(1 + random_below(7))};
    struct snapshot_meta meta;
    switch (view.kind) {
    case MESSAGE_APPEND:
        receive_append(from_id);
        return;
    case MESSAGE_APPEND_RESULT:
        view.append_result =
            (struct message_append_result){.term = any_term(),
                                           .rejected = random_one_in(2) ? any_index() : 0,
                                           .last_index = any_index()};
        break;
    case MESSAGE_VOTE:
        view.vote = (struct message_vote){.term = any_term(),
                                          .last_index = any_index(),
                                          .last_term = any_term(),
                                          .disrupt_leader = random_one_in(2),
                                          .is_pre_vote = random_one_in(2)};
        break;
    case MESSAGE_VOTE_RESULT:
        view.vote_result = (struct message_vote_result){
            .term = any_term(), .is_granted = random_one_in(2), .is_pre_vote = random_one_in(2)};
        break;
    case MESSAGE_TIMEOUT_NOW:
        view.timeout_now = (struct message_timeout_now){
            .term = any_term(), .last_index = any_index(), .last_term = any_term()};
        break;
    case MESSAGE_SNAPSHOT:
        meta = fixture_meta(any_index(), any_term(), any_index(), any_roles());
        view.snapshot = (struct message_snapshot){.term = any_term(), .meta = &meta};
        break;
    case MESSAGE_SNAPSHOT_RESULT:
        break;
    }
    size_t n_installs = fixture.n_installs;
    bool is_wanted = raft_engine_receive(fixture.engine, from_id, &view, fixture.now_ms);
    if (view.kind == MESSAGE_SNAPSHOT && is_wanted != (fixture.n_installs > n_installs)) {
        check(false, "a snapshot is wanted but not installed", 0);
    }
}

/* The node itself goes on with its work. */
static void work(void) {
    fixture.now_ms += random_below(300);
    fixture.is_holding = random_one_in(5);
    fixture.is_leaderless = random_one_in(3);
    fixture_poll();
    if (random_one_in(2)) {
        fixture_written();
    }
    if (raft_engine_is_installing(fixture.engine) && random_one_in(3)) {
        raft_engine_installed(fixture.engine, fixture.now_ms);
        fixture.applied_index = raft_engine_applied_index(fixture.engine);
    }
    struct snapshot_meta meta;
    if (random_one_in(10) && raft_engine_snapshot_begin(fixture.engine, &meta)) {
        raft_engine_snapshot_taken(fixture.engine, 1, random_below(5), fixture.now_ms);
    }
    raft_engine_snapshot_abandoned(fixture.engine);
    if (raft_engine_role(fixture.engine) == ENGINE_LEADER) {
        uint8_t *bytes = calloc(1, 8);
        if (raft_engine_propose(fixture.engine, bytes, 8, fixture.now_ms) != STATUS_OK) {
            free(bytes);
        }
        uint64_t id = 1 + random_below(PEERS);
        (void)raft_engine_change(fixture.engine, (enum raft_engine_change)random_below(3), id,
                                 "new", fixture.now_ms);
        if (random_one_in(10)) {
            (void)raft_engine_transfer(fixture.engine, id, fixture.now_ms);
        }
    }
}

static void run(uint64_t seed) {
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 99;
    if (random_one_in(4)) {
        fixture_create(1);
        struct raft_engine_loaded loaded = {.first_index = 1};
        check(fixture_start(&loaded) == STATUS_OK, "it does not start", seed);
    } else {
        fixture_boot(1, any_roles(), 1 + random_below(3), random_below(5));
    }
    if (random_one_in(3) && raft_engine_role(fixture.engine) == ENGINE_FOLLOWER) {
        fixture_poll_at_deadline();
    }
    for (size_t i = 0; i < MESSAGES; i++) {
        uint64_t term = raft_engine_term(fixture.engine);
        uint64_t applied = raft_engine_applied_index(fixture.engine);
        fixture.n_sent = 0;
        receive_any(random_one_in(10) ? 99 : 1 + random_below(PEERS));
        check(!fixture.has_failed, "it failed", seed);
        check(raft_engine_applied_index(fixture.engine) >= applied, "what is applied is lost",
              seed);
        check(raft_engine_term(fixture.engine) >= term, "the term went back", seed);
        check(raft_engine_term(fixture.engine) - term <= RAFT_GUARDS_TERM_LEAP_MAX,
              "the term leapt", seed);
        work();
        check(!fixture.has_failed, "it failed at its own work", seed);
    }
    fixture_close();
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    uint64_t seed = random_state;
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 0) : RUNS;
    for (uint64_t i = 0; i < n; i++) {
        run(seed + i);
    }
    printf("%" PRIu64 " runs of %d messages\n", n, MESSAGES);
    return 0;
}
