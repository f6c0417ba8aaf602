#include "bench/bench_plot.h"

#include <math.h>

#define WIDTH 720
#define HEIGHT 400
#define LEFT 70
#define RIGHT 40
#define TOP 44
#define BOTTOM 52
/* Points of a curve for each further nine. */
#define STEPS_PER_NINE 24
#define NINES_MAX 6

struct frame {
    unsigned nines; /* the last tick on the right: 3 is 99.9 % */
    int low;        /* powers of ten, in nanoseconds */
    int high;
};

static const char *const colours[] = {"#2f7ed8", "#d9730d", "#2a9d5c", "#b04fc4",
                                      "#c9302c", "#138a8a", "#8a6d3b", "#6b7280"};
#define N_COLOURS (sizeof colours / sizeof colours[0])

/* ---- the frame ----------------------------------------------------------------------------------
 */

/* As many nines as the numbers bear: the last step must still stand for some of them. */
static unsigned nines_of(uint64_t count) {
    unsigned nines = 1;
    for (uint64_t power = 100; power <= count && nines < NINES_MAX; power *= 10) {
        nines++;
    }
    return nines;
}

static struct frame find_frame(const struct bench_tally *tallies, size_t n_tallies) {
    struct frame frame = {.nines = 1, .low = 64, .high = 0};
    for (size_t i = 0; i < n_tallies; i++) {
        const struct histogram *latency = tallies[i].latency_ns;
        if (latency->count == 0) {
            continue;
        }
        unsigned nines = nines_of(latency->count);
        int low = (int)floor(log10((double)latency->min + 1.0));
        int high = (int)ceil(log10((double)latency->max + 1.0));
        frame.nines = nines > frame.nines ? nines : frame.nines;
        frame.low = low < frame.low ? low : frame.low;
        frame.high = high > frame.high ? high : frame.high;
    }
    if (frame.high <= frame.low) {
        frame.low = frame.low < 64 ? frame.low : 3;
        frame.high = frame.low + 1;
    }
    return frame;
}

static double x_of(const struct frame *frame, double nines) {
    return LEFT + nines / frame->nines * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct frame *frame, double number_ns) {
    double share = (log10(number_ns + 1.0) - frame->low) / (double)(frame->high - frame->low);
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
}

/* ---- parts --------------------------------------------------------------------------------------
 */

static void write_head(const char *title, FILE *out) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
            "height=\"%d\" role=\"img\">\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    fputs("<style>text{font:13px sans-serif;fill:#333}.title{font-size:15px;font-weight:bold}"
          ".grid{stroke:#888;stroke-opacity:.3}.back{fill:#fff}"
          "@media(prefers-color-scheme:dark){text{fill:#ddd}.back{fill:#1c1e21}}</style>\n",
          out);
    fprintf(out, "<rect class=\"back\" width=\"%d\" height=\"%d\" rx=\"6\"/>\n", WIDTH, HEIGHT);
    fprintf(out, "<text class=\"title\" x=\"%d\" y=\"26\">", LEFT);
    for (const char *c = title; *c != 0; c++) {
        switch (*c) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc(*c, out);
        }
    }
    fputs("</text>\n", out);
}

static void write_time(int power, FILE *out) {
    static const char *const units[] = {"ns", "µs", "ms", "s"};
    int unit = power / 3 < 3 ? power / 3 : 3;
    fprintf(out, "%.0f %s", pow(10, power - 3 * unit), units[unit]);
}

static void write_grid(const struct frame *frame, FILE *out) {
    for (int power = frame->low; power <= frame->high; power++) {
        double y = y_of(frame, pow(10, power));
        fprintf(out, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
        fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 8, y + 4);
        write_time(power, out);
        fputs("</text>\n", out);
    }
    for (unsigned nines = 0; nines <= frame->nines; nines++) {
        double x = x_of(frame, nines);
        int digits = nines > 2 ? (int)nines - 2 : 0;
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %dV%d\"/>", x, TOP, HEIGHT - BOTTOM);
        fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f %%</text>\n", x,
                HEIGHT - BOTTOM + 20, digits, 100.0 - pow(10, 2.0 - nines));
    }
    fprintf(out,
            "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">of the operations took at most"
            " this long</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
}

static void write_curve(const struct frame *frame, const struct bench_tally *tally, size_t index,
                        FILE *out) {
    const struct histogram *latency = tally->latency_ns;
    const char *colour = colours[index % N_COLOURS];
    unsigned n_points = nines_of(latency->count) * STEPS_PER_NINE;
    fprintf(out, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.5\" d=\"", colour);
    for (unsigned i = 0; i <= n_points; i++) {
        double nines = (double)i / STEPS_PER_NINE;
        double share = 1.0 - pow(10, -nines);
        uint64_t number =
            histogram_quantile(latency, (unsigned)(share * HISTOGRAM_PER_MILLION_MAX));
        fprintf(out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', x_of(frame, nines),
                y_of(frame, (double)number));
    }
    fputs("\"/>\n", out);
    int y = TOP + 18 + 20 * (int)index;
    fprintf(out,
            "<path stroke=\"%s\" stroke-width=\"4\" d=\"M%d %dh22\"/>"
            "<text x=\"%d\" y=\"%d\">%s</text>\n",
            colour, LEFT + 14, y - 4, LEFT + 44, y, tally->name);
}

bool bench_plot_write(const struct bench_tally *tallies, size_t n_tallies, const char *title,
                      FILE *out) {
    struct frame frame = find_frame(tallies, n_tallies);
    write_head(title, out);
    write_grid(&frame, out);
    for (size_t i = 0; i < n_tallies; i++) {
        if (tallies[i].latency_ns->count > 0) {
            write_curve(&frame, &tallies[i], i, out);
        }
    }
    fputs("</svg>\n", out);
    return fflush(out) == 0 && !ferror(out);
}
