/* Votes: asked for, given, and held while a promise not to vote stands. */
#include "raft/raft_engine_internal.h"

static void send_vote_result(struct raft_engine *engine, uint64_t to_id,
                             const struct message_vote_result *result) {
    struct raft_message_view message = {.kind = MESSAGE_VOTE_RESULT, .vote_result = *result};
    engine->calls.send(engine->data, to_id, &message);
}

/* Would raft have given its vote, if it knew that it is a voter? */
static bool may_vote_unknowingly(const struct raft_engine *engine, uint64_t candidate_id,
                                 const struct message_vote *vote) {
    struct raft_guards_view view = engine_view(engine);
    if (!raft_guards_may_be_voter(&view) || vote->term < view.term) {
        return false;
    }
    uint64_t voted_for = raft_voted_for(&engine->raft);
    if (!vote->is_pre_vote &&
        (vote->term != view.term || (voted_for != 0 && voted_for != candidate_id))) {
        return false;
    }
    if (raft_engine_leader_id(engine) != 0 && !vote->disrupt_leader) {
        return false;
    }
    uint64_t last_term = engine_last_term(engine);
    return vote->last_term > last_term ||
           (vote->last_term == last_term && vote->last_index >= view.last_index);
}

/* Servers must vote whatever their own configuration says (Raft, section 4.1): a candidate counts
 * by its own, which may be newer. libraft's do not, and a voter that was made one by an entry that
 * it lacks would never help to elect the leader that has it. */
static void vote_unknowingly(struct raft_engine *engine, uint64_t candidate_id,
                             struct message_vote_result *result) {
    const struct message_vote *vote = engine->asked;
    if (vote == NULL || result->is_granted || !may_vote_unknowingly(engine, candidate_id, vote)) {
        return;
    }
    if (!vote->is_pre_vote) {
        engine->ballot_term = vote->term;
        engine->ballot_id = candidate_id;
        if (engine->calls.store_vote(engine->data, vote->term, candidate_id) != STATUS_OK) {
            engine_fail(engine, "the term and the vote could not be stored");
            return;
        }
    }
    result->is_granted = true;
}

void engine_send_vote_result(struct raft_engine *engine, uint64_t to_id,
                             struct message_vote_result result) {
    vote_unknowingly(engine, to_id, &result);
    if (engine->has_failed) {
        return;
    }
    struct raft_guards_view view = engine_view(engine);
    raft_guards_correct_vote_result(&view, &result);
    send_vote_result(engine, to_id, &result);
}

static void feed_vote(struct raft_engine *engine, uint64_t from_id,
                      const struct message_vote *received) {
    struct message_vote vote = *received;
    uint64_t term = raft_current_term(&engine->raft);
    if (!vote.is_pre_vote && vote.term == engine->ballot_term && from_id != engine->ballot_id) {
        struct message_vote_result refusal = {.term = term};
        send_vote_result(engine, from_id, &refusal);
        return;
    }
    /* A leader that is silent for so long is none, whatever libraft still thinks. */
    vote.disrupt_leader = vote.disrupt_leader || engine->calls.is_leaderless(engine->data);
    struct raft_message message = engine_message_from(engine, from_id, RAFT_REQUEST_VOTE);
    message.request_vote = (struct raft_request_vote){.version = 2,
                                                      .term = vote.term,
                                                      .candidate_id = from_id,
                                                      .last_log_index = vote.last_index,
                                                      .last_log_term = vote.last_term,
                                                      .disrupt_leader = vote.disrupt_leader,
                                                      .pre_vote = vote.is_pre_vote};
    engine->asked = &vote;
    engine_feed(engine, &message);
    engine->asked = NULL;
}

void engine_receive_vote(struct raft_engine *engine, uint64_t from_id,
                         const struct message_vote *vote) {
    if (engine->calls.may_vote(engine->data, from_id)) {
        feed_vote(engine, from_id, vote);
        return;
    }
    struct held_vote held = {.peer_id = from_id, .since_ms = engine->now_ms, .vote = *vote};
    (void)held_votes_add(&engine->held, &held);
}

static void pass_on_vote(struct raft_engine *engine, uint64_t to_id,
                         const struct message_vote *vote) {
    struct raft_message_view view = {.kind = MESSAGE_VOTE, .vote = *vote};
    engine->calls.send(engine->data, to_id, &view);
}

void engine_send_vote(struct raft_engine *engine, uint64_t to_id, struct message_vote vote) {
    raft_guards_correct_vote(engine->transfer_term, &vote);
    if (engine->calls.may_vote(engine->data, engine->options.self_id)) {
        pass_on_vote(engine, to_id, &vote);
        return;
    }
    struct held_vote held = {
        .peer_id = to_id, .is_outgoing = true, .since_ms = engine->now_ms, .vote = vote};
    (void)held_votes_add(&engine->held, &held);
}

void engine_release_votes(struct raft_engine *engine) {
    held_votes_expire(&engine->held, engine->now_ms, engine->options.election_ms);
    /* What is passed on may bring new ones, at the end. */
    size_t at = 0;
    for (size_t left = engine->held.n; left > 0 && !engine->has_failed; left--) {
        if (at >= engine->held.n) {
            break;
        }
        const struct held_vote *next = &engine->held.votes[at];
        uint64_t candidate_id = next->is_outgoing ? engine->options.self_id : next->peer_id;
        if (!engine->calls.may_vote(engine->data, candidate_id)) {
            at++;
            continue;
        }
        struct held_vote held;
        (void)held_votes_take(&engine->held, at, &held);
        if (!held.is_outgoing) {
            feed_vote(engine, held.peer_id, &held.vote);
        } else if (raft_engine_role(engine) == ENGINE_CANDIDATE) {
            pass_on_vote(engine, held.peer_id, &held.vote);
        }
    }
}

void engine_begin_term(struct raft_engine *engine) {
    struct raft_message message = engine_message_from(engine, ENGINE_NOBODY_ID, RAFT_REQUEST_VOTE);
    message.request_vote = (struct raft_request_vote){.version = 2,
                                                      .term = raft_current_term(&engine->raft) + 1,
                                                      .candidate_id = ENGINE_NOBODY_ID,
                                                      .disrupt_leader = true};
    engine_feed(engine, &message);
}

void engine_receive_vote_result(struct raft_engine *engine, uint64_t from_id,
                                const struct message_vote_result *result) {
    struct raft_guards_view view = engine_view(engine);
    if (!raft_guards_admit_vote_result(&view, from_id, result)) {
        return;
    }
    struct raft_message message = engine_message_from(engine, from_id, RAFT_REQUEST_VOTE_RESULT);
    message.request_vote_result =
        (struct raft_request_vote_result){.version = 2,
                                          .term = result->term,
                                          .vote_granted = result->is_granted,
                                          .pre_vote = result->is_pre_vote};
    engine_feed(engine, &message);
}

void engine_receive_timeout_now(struct raft_engine *engine, uint64_t from_id,
                                const struct message_timeout_now *timeout_now) {
    struct raft_guards_view view = engine_view(engine);
    if (!raft_guards_admit_timeout_now(&view)) {
        return;
    }
    if (from_id == raft_engine_leader_id(engine) && timeout_now->term == view.term) {
        engine->transfer_term = timeout_now->term + 1;
    }
    struct raft_message message = engine_message_from(engine, from_id, RAFT_TIMEOUT_NOW);
    message.timeout_now = (struct raft_timeout_now){.term = timeout_now->term,
                                                    .last_log_index = timeout_now->last_index,
                                                    .last_log_term = timeout_now->last_term};
    engine_feed(engine, &message);
}
