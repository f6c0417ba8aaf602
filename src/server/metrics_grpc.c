#include "server/metrics_grpc.h"

#include "base/prometheus.h"
#include "net/grpc_stats.h"

#include <stdio.h>
#include <string.h>

enum { NAME_SIZE = 128, METHOD_LABELS = 3 };

/* A path is "/service/method". The code comes first where there is one: scripts look for lines
 * with the labels in the order of the alphabet. */
struct method_labels {
    char service[NAME_SIZE];
    char method[NAME_SIZE];
    struct prometheus_label labels[METHOD_LABELS + 1];
};

/* What is being written: one family after the other, each over all methods. */
struct writing {
    struct buffer *buffer;
    const char *name;
    uint64_t (*number)(const struct grpc_stats *stats);
    bool has_latency; /* some method's was written */
    bool has_codes;   /* likewise */
};

static void label(const struct grpc_method *method, struct method_labels *out) {
    static const char *const types[] = {
        [GRPC_UNARY] = "unary",
        [GRPC_SERVER_STREAM] = "server_stream",
        [GRPC_BIDIRECTIONAL] = "bidi_stream",
    };
    const char *slash = strrchr(method->path, '/');
    snprintf(out->service, sizeof out->service, "%.*s", (int)(slash - method->path) - 1,
             method->path + 1);
    snprintf(out->method, sizeof out->method, "%s", slash + 1);
    out->labels[1] = (struct prometheus_label){.name = "grpc_method", .value = out->method};
    out->labels[2] = (struct prometheus_label){.name = "grpc_service", .value = out->service};
    out->labels[3] = (struct prometheus_label){.name = "grpc_type", .value = types[method->kind]};
}

static uint64_t started(const struct grpc_stats *stats) {
    return stats->started;
}

static uint64_t received(const struct grpc_stats *stats) {
    return stats->received;
}

static uint64_t sent(const struct grpc_stats *stats) {
    return stats->sent;
}

static void write_number(void *data, const struct grpc_method *method,
                         const struct grpc_stats *stats) {
    struct writing *writing = data;
    struct method_labels labels;
    label(method, &labels);
    prometheus_sample_u64(writing->buffer, writing->name, "", labels.labels + 1, METHOD_LABELS,
                          writing->number(stats));
}

/* A method that was called has every code, so that the first error counts as an increase from 0 and
 * a panel of errors is not empty while there are none; so has the first method, on a server that is
 * new. The others have OK. */
static void write_handled(void *data, const struct grpc_method *method,
                          const struct grpc_stats *stats) {
    struct writing *writing = data;
    struct method_labels labels;
    label(method, &labels);
    for (size_t code = 0; code < GRPC_CODES; code++) {
        if (code != GRPC_OK && stats->started == 0 && writing->has_codes) {
            continue;
        }
        labels.labels[0] = (struct prometheus_label){.name = "grpc_code",
                                                     .value = grpc_code_name((enum grpc_code)code)};
        prometheus_sample_u64(writing->buffer, writing->name, "", labels.labels, METHOD_LABELS + 1,
                              stats->handled[code]);
    }
    writing->has_codes = true;
}

/* Of methods that were called; and of the first, so that the family is never empty. */
static void write_latency(void *data, const struct grpc_method *method,
                          const struct grpc_stats *stats) {
    struct writing *writing = data;
    if (stats->started == 0 && writing->has_latency) {
        return;
    }
    writing->has_latency = true;
    struct method_labels labels;
    label(method, &labels);
    prometheus_latency(writing->buffer, writing->name, labels.labels + 1, METHOD_LABELS,
                       &stats->handling);
}

void metrics_grpc_write(const struct net_server *net, struct buffer *buffer) {
    static const struct {
        const char *name;
        const char *help;
        uint64_t (*number)(const struct grpc_stats *stats);
    } counters[] = {
        {"grpc_server_started_total", "Calls begun, by method.", started},
        {"grpc_server_msg_received_total", "Messages from clients, by method.", received},
        {"grpc_server_msg_sent_total", "Messages to clients, by method.", sent},
    };
    struct writing writing = {.buffer = buffer};
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        writing.name = counters[i].name;
        writing.number = counters[i].number;
        prometheus_family(buffer, writing.name, PROMETHEUS_COUNTER, counters[i].help);
        net_server_each_method(net, write_number, &writing);
    }
    writing.name = "grpc_server_handled_total";
    prometheus_family(buffer, writing.name, PROMETHEUS_COUNTER,
                      "Calls that have ended, by method and code.");
    net_server_each_method(net, write_handled, &writing);
    writing.name = "grpc_server_handling_seconds";
    prometheus_family(buffer, writing.name, PROMETHEUS_HISTOGRAM,
                      "From the headers of a call to its status, by method.");
    net_server_each_method(net, write_latency, &writing);
}
