#include "base/progress.h"

#include "base/clock.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#define FIRST_AFTER_MS 300
#define INTERVAL_MS 100

void progress_init(struct progress *progress, const char *what) {
    *progress = (struct progress){
        .what = what,
        .is_terminal = isatty(STDERR_FILENO) == 1,
        .next_ms = clock_boottime_ms() + FIRST_AFTER_MS,
    };
}

static bool begin_update(struct progress *progress) {
    if (!progress->is_terminal) {
        return false;
    }
    uint64_t now = clock_boottime_ms();
    if (now < progress->next_ms) {
        return false;
    }
    progress->next_ms = now + INTERVAL_MS;
    progress->is_shown = true;
    return true;
}

void progress_update(struct progress *progress, size_t done, size_t total) {
    if (begin_update(progress)) {
        unsigned percent = total > 0 ? (unsigned)(done * 100 / total) : 0;
        fprintf(stderr, "\r%zu of %zu %s (%u %%)\033[K", done, total, progress->what, percent);
        fflush(stderr);
    }
}

void progress_text(struct progress *progress, const char *format, ...) {
    if (begin_update(progress)) {
        va_list list;
        fputc('\r', stderr);
        va_start(list, format);
        vfprintf(stderr, format, list);
        va_end(list);
        fputs("\033[K", stderr);
        fflush(stderr);
    }
}

void progress_end(struct progress *progress) {
    if (progress->is_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->is_shown = false;
    }
}
