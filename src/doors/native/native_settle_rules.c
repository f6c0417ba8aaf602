/* Pure: run by every replica when the command is applied, with the same result. What is left to do,
 * and the list of all rules. */
#include "core/cluster_version.h"
#include "doors/native/native_grant_rules.h"
#include "doors/native/native_rules.h"

bool native_settled_decode(struct bytes answer, bool *out_has_more) {
    if (answer.size != 1) {
        return false;
    }
    *out_has_more = answer.data[0] != 0;
    return true;
}

struct firsts {
    const struct record *records[2];
    size_t n;
};

static bool note_first(void *context, const struct record *record) {
    struct firsts *firsts = context;
    firsts->records[firsts->n++] = record;
    return firsts->n < 2;
}

static enum status run_settle(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct native_work work;
    struct firsts firsts = {0};
    struct key_range range = native_records('m');
    if (request.size > 0) {
        return STATUS_MALFORMED;
    }
    rule_act_for_server(run);
    native_work_init(&work, run);
    (void)rule_visit(run, range.space, range.key, range.range_end, note_first, &firsts);
    bool has_more = firsts.n > 1;
    if (firsts.n > 0) {
        (void)rule_delete(run, range.space, record_key(firsts.records[0]));
        native_work_resume(&work, record_value(firsts.records[0]));
        has_more = native_work_finish(&work) || has_more;
    }
    buffer_put_u8(answer, has_more);
    return STATUS_OK;
}

const struct rule native_rule_settle = {.number = NATIVE_RULE_SETTLE,
                                        .name = "native settle",
                                        .since_version = CLUSTER_VERSION_RULES,
                                        .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                        .run = run_settle,
                                        .runs_when_full = true};

const struct rule *const native_rules[NATIVE_N_RULES] = {
    &native_rule_session_create, &native_rule_session_change, &native_rule_session_end,
    &native_rule_session_ended,  &native_rule_acquire,        &native_rule_release,
    &native_rule_hold_limit,     &native_rule_proclaim,       &native_rule_transfer,
    &native_rule_pool_set,       &native_rule_pool_remove,    &native_rule_fence_check,
    &native_rule_settle};
