#include "doors/redis/redis_sample_rules.h"

enum { REPEATS_MAX = 1024 * 1024 };

bool redis_sample_get_count(struct redis_run *run, struct bytes argument,
                            struct redis_sample *out_sample) {
    int64_t count;
    if (!redis_get_integer(run, argument, &count)) {
        return false;
    }
    if (count < -REPEATS_MAX) {
        redis_error(run, "value is out of range");
        return false;
    }
    *out_sample =
        (struct redis_sample){.n = (size_t)(count < 0 ? -count : count), .repeats = count < 0};
    return true;
}

struct redis_records redis_sample_choose(struct redis_run *run, struct redis_records *records,
                                         const struct redis_sample *sample) {
    struct redis_records chosen = {0};
    if (records->n == 0) {
        return chosen;
    }
    if (sample->repeats) {
        size_t bytes = 0;
        chosen.at = arena_calloc(run->arena, sample->n, sizeof chosen.at[0]);
        for (; chosen.n < sample->n && bytes <= REDIS_REPLY_BYTES_MAX; chosen.n++) {
            const struct record *record = records->at[redis_random(run, records->n)];
            bytes += (size_t)record->key_size + record->value_size;
            chosen.at[chosen.n] = record;
        }
        run->is_exceeded = run->is_exceeded || bytes > REDIS_REPLY_BYTES_MAX;
        return chosen;
    }
    chosen.at = records->at;
    chosen.n = sample->n < records->n ? sample->n : records->n;
    for (size_t i = 0; i < chosen.n && chosen.n < records->n; i++) {
        size_t other = i + redis_random(run, records->n - i);
        const struct record *record = records->at[i];
        records->at[i] = records->at[other];
        records->at[other] = record;
    }
    return chosen;
}
