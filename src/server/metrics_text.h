/*
 * The text of /metrics. Writing it takes a few tenths of a millisecond of the loop's time, and
 * anybody may ask: it is written anew as long as this takes a small share of the time, and beyond
 * that the last text is given again, which is then some milliseconds old, and a second at most.
 */
#ifndef LEASED_SERVER_METRICS_TEXT_H
#define LEASED_SERVER_METRICS_TEXT_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    METRICS_TEXT_SHARE = 10,                      /* one part in so many of the loop's time */
    METRICS_TEXT_CREDIT_NS_MAX = 50 * 1000 * 1000 /* at once, after a while without requests */
};

struct metrics_text {
    struct buffer text; /* the last one that was written */
    int64_t credit_ns;
    uint64_t credited_ns; /* when credit was last added */
};

void metrics_text_init(struct metrics_text *kept);
void metrics_text_clear(struct metrics_text *kept);

/* Whether the text is to be written anew, into `text`; metrics_text_written() follows if so. */
bool metrics_text_is_due(struct metrics_text *kept, uint64_t now_ns);
void metrics_text_written(struct metrics_text *kept, uint64_t took_ns);

#endif
