#include "bench/bench_report.h"

#include <inttypes.h>
#include <string.h>

#define NUMBER_TEXT_SIZE_MAX 32
#define JSON_DIGITS 9

static const struct quantile {
    const char *name; /* in JSON */
    const char *title;
    unsigned per_million;
} quantiles[] = {
    {"p50", "p50", 500000},     {"p90", "p90", 900000},  {"p99", "p99", 990000},
    {"p99_9", "p99.9", 999000}, {"max", "max", 1000000},
};
#define N_QUANTILES (sizeof quantiles / sizeof quantiles[0])

static double quantile_ms(const struct bench_tally *tally, const struct quantile *quantile) {
    return (double)histogram_quantile(tally->latency_ns, quantile->per_million) / 1e6;
}

static double per(double number, double divisor) {
    return divisor > 0 ? number / divisor : 0.0;
}

static double server_cpu_seconds(const struct bench *bench) {
    return bench->server_end.cpu_seconds - bench->server_begin.cpu_seconds;
}

/* 1234567 as "1,234,567". */
static const char *grouped(double number, char room[NUMBER_TEXT_SIZE_MAX]) {
    char plain[NUMBER_TEXT_SIZE_MAX];
    int size = snprintf(plain, sizeof plain, "%.0f", number);
    size_t used = 0;
    for (int i = 0; i < size && used + 2 < NUMBER_TEXT_SIZE_MAX; i++) {
        if (i > 0 && (size - i) % 3 == 0 && plain[i - 1] != '-') {
            room[used++] = ',';
        }
        room[used++] = plain[i];
    }
    room[used] = 0;
    return room;
}

/* ---- JSON ---------------------------------------------------------------------------------------
 */

static void add_tally(json_t *to, const struct bench *bench, const struct bench_tally *tally) {
    double seconds = bench_seconds(bench);
    json_object_set_new(to, "operations", json_integer((json_int_t)tally->count));
    json_object_set_new(to, "ops_per_second", json_real(per((double)tally->count, seconds)));
    if (bench->rate > 0 && tally->scheduled > 0) {
        json_object_set_new(to, "scheduled", json_integer((json_int_t)tally->scheduled));
        json_object_set_new(to, "unsent", json_integer((json_int_t)tally->unsent));
    }
    if (bench->n_pids > 0) {
        double rate = per((double)tally->count, server_cpu_seconds(bench));
        json_object_set_new(to, "ops_per_server_cpu_second", json_real(rate));
    }
    if (tally->latency_ns->count > 0) {
        json_t *latency = json_object();
        for (size_t i = 0; i < N_QUANTILES; i++) {
            json_object_set_new(latency, quantiles[i].name,
                                json_real(quantile_ms(tally, &quantiles[i])));
        }
        json_object_set_new(latency, "mean", json_real(histogram_mean(tally->latency_ns) / 1e6));
        json_object_set_new(to, "latency_ms", latency);
    }
}

static void print_json(const struct bench *bench) {
    json_t *result = json_pack("{s:s, s:I, s:I, s:f}", "workload", bench->workload->name, "clients",
                               (json_int_t)bench->n_clients, "connections",
                               (json_int_t)bench->n_connections, "seconds", bench_seconds(bench));
    if (bench->rate > 0) {
        json_object_set_new(result, "rate", json_real(bench->rate));
    }
    json_object_update(result, bench->facts);
    if (bench->n_tallies > 0) {
        add_tally(result, bench, &bench->tallies[0]);
    }
    if (bench->n_tallies > 1) {
        json_t *kinds = json_object();
        for (size_t i = 0; i < bench->n_tallies; i++) {
            json_t *kind = json_object();
            add_tally(kind, bench, &bench->tallies[i]);
            json_object_set_new(kinds, bench->tallies[i].name, kind);
        }
        json_object_set_new(result, "kinds", kinds);
    }
    json_object_set_new(result, "client_cpu_seconds", json_real(bench->own_cpu_seconds));
    if (bench->n_pids > 0) {
        json_object_set_new(result, "server_cpu_seconds", json_real(server_cpu_seconds(bench)));
        json_object_set_new(result, "server_rss_before_bytes",
                            json_integer((json_int_t)bench->server_begin.rss_bytes));
        json_object_set_new(result, "server_rss_bytes",
                            json_integer((json_int_t)bench->server_end.rss_bytes));
    }
    json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(JSON_DIGITS));
    putchar('\n');
    json_decref(result);
}

/* ---- text ---------------------------------------------------------------------------------------
 */

static void print_title(const char *title) {
    printf("  %-14s", title);
}

static void print_tally(const struct bench *bench, const struct bench_tally *tally) {
    char count[NUMBER_TEXT_SIZE_MAX];
    char rate[NUMBER_TEXT_SIZE_MAX];
    print_title(tally->name);
    printf("%s, %s/s", grouped((double)tally->count, count),
           grouped(per((double)tally->count, bench_seconds(bench)), rate));
    if (bench->rate > 0 && tally->scheduled > 0) {
        printf(" of %s/s scheduled", grouped(bench->rate, rate));
        if (tally->unsent > 0) {
            printf("; %s never sent: the clients were all busy",
                   grouped((double)tally->unsent, count));
        }
    }
    putchar('\n');
    if (tally->latency_ns->count > 0) {
        print_title("");
        for (size_t i = 0; i < N_QUANTILES; i++) {
            printf("%s%s %.3f", i > 0 ? "  " : "", quantiles[i].title,
                   quantile_ms(tally, &quantiles[i]));
        }
        puts(" ms");
    }
}

static void print_costs(const struct bench *bench) {
    double seconds = bench_seconds(bench);
    char rate[NUMBER_TEXT_SIZE_MAX];
    double server = server_cpu_seconds(bench);
    if (bench->n_pids > 0) {
        print_title("server");
        printf("%.2f CPU seconds (%.0f %% of a core)", server, 100 * per(server, seconds));
        if (bench->n_tallies > 0 && server > 0) {
            printf(", %s operations per CPU second",
                   grouped(per((double)bench->tallies[0].count, server), rate));
        }
        printf("; %.1f MB resident, %.1f MB before\n", (double)bench->server_end.rss_bytes / 1e6,
               (double)bench->server_begin.rss_bytes / 1e6);
    }
    print_title("this tool");
    printf("%.2f CPU seconds (%.0f %% of a core)", bench->own_cpu_seconds,
           100 * per(bench->own_cpu_seconds, seconds));
    if (bench->n_pids > 0 && server > 0) {
        printf(", %.0f %% of the server's", 100 * bench->own_cpu_seconds / server);
    }
    putchar('\n');
}

static void print_text(const struct bench *bench) {
    printf("%s: %zu clients on %zu connections, %.2f s\n", bench->workload->name, bench->n_clients,
           bench->n_connections, bench_seconds(bench));
    for (size_t i = 0; i < bench->n_tallies; i++) {
        print_tally(bench, &bench->tallies[i]);
    }
    for (size_t i = 0; i < bench->n_fact_lines; i++) {
        print_title(bench->fact_lines[i].title);
        puts(bench->fact_lines[i].text);
    }
    print_costs(bench);
}

void bench_report(struct bench *bench) {
    if (bench->is_json) {
        print_json(bench);
    } else {
        print_text(bench);
    }
}
