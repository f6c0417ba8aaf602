/*
 * Prometheus' text format 0.0.4: families with their HELP and TYPE lines, samples with labels.
 */
#ifndef LEASED_BASE_PROMETHEUS_H
#define LEASED_BASE_PROMETHEUS_H

#include "base/buffer.h"
#include "base/latency.h"

#include <stddef.h>
#include <stdint.h>

#define PROMETHEUS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum prometheus_type { PROMETHEUS_COUNTER, PROMETHEUS_GAUGE, PROMETHEUS_HISTOGRAM };

struct prometheus_label {
    const char *name;
    const char *value;
};

/* The two lines before the samples of a family. */
void prometheus_family(struct buffer *buffer, const char *name, enum prometheus_type type,
                       const char *help);

/* One sample; `suffix` ("", "_sum") is added to the name. */
void prometheus_sample(struct buffer *buffer, const char *name, const char *suffix,
                       const struct prometheus_label *labels, size_t n_labels, double value);
/* The same for whole numbers, which a double would round above 2^53. */
void prometheus_sample_u64(struct buffer *buffer, const char *name, const char *suffix,
                           const struct prometheus_label *labels, size_t n_labels, uint64_t value);

/* A family of one sample without labels. */
void prometheus_gauge(struct buffer *buffer, const char *name, const char *help, uint64_t value);
void prometheus_counter(struct buffer *buffer, const char *name, const char *help, uint64_t value);

/* A histogram: `counts` has one bucket for each bound and an open one at the end, each with what
 * fell into it alone (they are added up here). Bounds are in milliseconds, the output in
 * seconds. */
void prometheus_histogram_ms(struct buffer *buffer, const char *name, const char *help,
                             const uint32_t *bounds_ms, size_t n_bounds, const uint64_t *counts,
                             uint64_t sum_ms);

/* The samples of one latency, in seconds: its buckets, sum and count, with these labels (at most
 * PROMETHEUS_LABELS_MAX). The family comes first. */
enum { PROMETHEUS_LABELS_MAX = 6 };
void prometheus_latency(struct buffer *buffer, const char *name,
                        const struct prometheus_label *labels, size_t n_labels,
                        const struct latency *latency);

#endif
