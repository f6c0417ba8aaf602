#include "base/prometheus.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_SIZE = 40 };

static void append_text(struct buffer *buffer, const char *text) {
    buffer_append(buffer, text, strlen(text));
}

static void append_escaped(struct buffer *buffer, const char *text, const char *escaped) {
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            append_text(buffer, "\\n");
        } else if (strchr(escaped, *text) != NULL) {
            buffer_put_u8(buffer, '\\');
            buffer_put_u8(buffer, (uint8_t)*text);
        } else {
            buffer_put_u8(buffer, (uint8_t)*text);
        }
    }
}

void prometheus_family(struct buffer *buffer, const char *name, enum prometheus_type type,
                       const char *help) {
    static const char *const types[] = {
        [PROMETHEUS_COUNTER] = "counter",
        [PROMETHEUS_GAUGE] = "gauge",
        [PROMETHEUS_HISTOGRAM] = "histogram",
    };
    append_text(buffer, "# HELP ");
    append_text(buffer, name);
    append_text(buffer, " ");
    append_escaped(buffer, help, "\\");
    append_text(buffer, "\n# TYPE ");
    append_text(buffer, name);
    append_text(buffer, " ");
    append_text(buffer, types[type]);
    append_text(buffer, "\n");
}

static void append_sample(struct buffer *buffer, const char *name, const char *suffix,
                          const struct prometheus_label *labels, size_t n_labels,
                          const char *number) {
    append_text(buffer, name);
    append_text(buffer, suffix);
    for (size_t i = 0; i < n_labels; i++) {
        append_text(buffer, i == 0 ? "{" : ",");
        append_text(buffer, labels[i].name);
        append_text(buffer, "=\"");
        append_escaped(buffer, labels[i].value, "\\\"");
        append_text(buffer, "\"");
    }
    append_text(buffer, n_labels > 0 ? "} " : " ");
    append_text(buffer, number);
    append_text(buffer, "\n");
}

void prometheus_sample(struct buffer *buffer, const char *name, const char *suffix,
                       const struct prometheus_label *labels, size_t n_labels, double value) {
    char number[NUMBER_SIZE];
    snprintf(number, sizeof number, "%.15g", value);
    append_sample(buffer, name, suffix, labels, n_labels, number);
}

void prometheus_sample_u64(struct buffer *buffer, const char *name, const char *suffix,
                           const struct prometheus_label *labels, size_t n_labels, uint64_t value) {
    char number[NUMBER_SIZE];
    snprintf(number, sizeof number, "%" PRIu64, value);
    append_sample(buffer, name, suffix, labels, n_labels, number);
}

void prometheus_gauge(struct buffer *buffer, const char *name, const char *help, uint64_t value) {
    prometheus_family(buffer, name, PROMETHEUS_GAUGE, help);
    prometheus_sample_u64(buffer, name, "", NULL, 0, value);
}

void prometheus_counter(struct buffer *buffer, const char *name, const char *help, uint64_t value) {
    prometheus_family(buffer, name, PROMETHEUS_COUNTER, help);
    prometheus_sample_u64(buffer, name, "", NULL, 0, value);
}

void prometheus_histogram_ms(struct buffer *buffer, const char *name, const char *help,
                             const uint32_t *bounds_ms, size_t n_bounds, const uint64_t *counts,
                             uint64_t sum_ms) {
    prometheus_family(buffer, name, PROMETHEUS_HISTOGRAM, help);
    uint64_t total = 0;
    for (size_t i = 0; i <= n_bounds; i++) {
        char bound[NUMBER_SIZE] = "+Inf";
        if (i < n_bounds) {
            snprintf(bound, sizeof bound, "%.15g", bounds_ms[i] / 1000.0);
        }
        total += counts[i];
        const struct prometheus_label label = {.name = "le", .value = bound};
        prometheus_sample_u64(buffer, name, "_bucket", &label, 1, total);
    }
    prometheus_sample(buffer, name, "_sum", NULL, 0, (double)sum_ms / 1000.0);
    prometheus_sample_u64(buffer, name, "_count", NULL, 0, total);
}

void prometheus_latency(struct buffer *buffer, const char *name,
                        const struct prometheus_label *labels, size_t n_labels,
                        const struct latency *latency) {
    struct prometheus_label all[PROMETHEUS_LABELS_MAX + 1];
    assert(n_labels <= PROMETHEUS_LABELS_MAX);
    if (n_labels > 0) {
        memcpy(all, labels, n_labels * sizeof *labels);
    }
    uint64_t total = 0;
    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        char bound[NUMBER_SIZE] = "+Inf";
        if (i < LATENCY_BOUNDS) {
            snprintf(bound, sizeof bound, "%.15g", (double)latency_bound_us(i) / 1e6);
        }
        total += latency->buckets[i];
        all[n_labels] = (struct prometheus_label){.name = "le", .value = bound};
        prometheus_sample_u64(buffer, name, "_bucket", all, n_labels + 1, total);
    }
    prometheus_sample(buffer, name, "_sum", labels, n_labels, (double)latency->sum_us / 1e6);
    prometheus_sample_u64(buffer, name, "_count", labels, n_labels, total);
}
