#include "server/metrics_text.h"

void metrics_text_init(struct metrics_text *kept) {
    *kept = (struct metrics_text){.credit_ns = METRICS_TEXT_CREDIT_NS_MAX};
    buffer_init(&kept->text);
}

void metrics_text_clear(struct metrics_text *kept) {
    buffer_clear(&kept->text);
}

static void add_credit(struct metrics_text *kept, uint64_t now_ns) {
    kept->credit_ns += (int64_t)((now_ns - kept->credited_ns) / METRICS_TEXT_SHARE);
    if (kept->credit_ns > METRICS_TEXT_CREDIT_NS_MAX) {
        kept->credit_ns = METRICS_TEXT_CREDIT_NS_MAX;
    }
    kept->credited_ns = now_ns;
}

bool metrics_text_is_due(struct metrics_text *kept, uint64_t now_ns) {
    add_credit(kept, now_ns);
    if (kept->text.size > 0 && kept->credit_ns <= 0) {
        return false;
    }
    kept->text.size = 0;
    return true;
}

void metrics_text_written(struct metrics_text *kept, uint64_t took_ns) {
    int64_t most_ns = 2 * (int64_t)METRICS_TEXT_CREDIT_NS_MAX;
    kept->credit_ns -= took_ns < (uint64_t)most_ns ? (int64_t)took_ns : most_ns;
}
