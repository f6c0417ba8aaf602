#include "server/leased_main.h"

#include "base/log.h"
#include "build_info.h"
#include "server/exit_code.h"
#include "server/options.h"
#include "server/request_list.h"
#include "server/restore.h"
#include "server/server.h"
#include "server/time_slice.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

static void print_version(const struct door_list *doors) {
    printf("leased %s\n", LEASED_VERSION);
    for (size_t i = 0; i < doors->n_doors; i++) {
        if (doors->doors[i]->api_version != NULL) {
            printf("%s %s\n", doors->doors[i]->title, doors->doors[i]->api_version);
        }
    }
    printf("libraft %s\nlibuv %s\nnghttp2 %s\n", LIBRAFT_VERSION, uv_version_string(),
           LIBNGHTTP2_VERSION);
}

/* Memory of large, short-lived buffers (snapshots, answers) goes back to the system, and worker
 * threads do not each grow an arena of their own. A fixed threshold keeps glibc from raising it
 * after the first large free. */
static void tune_memory(void) {
    mallopt(M_ARENA_MAX, 2);
    mallopt(M_MMAP_THRESHOLD, 256 * 1024);
    mallopt(M_TRIM_THRESHOLD, 1024 * 1024);
}

/* Lines go to standard error, which may be made to lead elsewhere. False: it could not. */
static bool direct_log(const char *target) {
    if (strcmp(target, "default") == 0 || strcmp(target, "stderr") == 0 ||
        strcmp(target, "systemd/journal") == 0) {
        return true;
    }
    if (strcmp(target, "stdout") == 0) {
        return dup2(STDOUT_FILENO, STDERR_FILENO) >= 0;
    }
    int fd = open(target, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    bool is_directed = dup2(fd, STDERR_FILENO) >= 0;
    close(fd);
    return is_directed;
}

static void log_notices(const struct options *options) {
    for (size_t i = 0; i < options->n_notices; i++) {
        if (log_enabled(options->notices[i].level)) {
            log_write(options->notices[i].level, options->notices[i].text, NULL, 0);
        }
    }
}

int leased_main(const struct door_list *doors, int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "restore") == 0) {
        return restore_main(doors, argc, argv);
    }
    struct options options;
    char error[OPTIONS_ERROR_SIZE];
    switch (options_parse(&options, doors, argc, argv, environ, error)) {
    case OPTIONS_HELP:
        options_print_help(doors, stdout);
        options_clear(&options);
        return EXIT_SUCCESS;
    case OPTIONS_VERSION:
        print_version(doors);
        options_clear(&options);
        return EXIT_SUCCESS;
    case OPTIONS_LIST_REQUESTS:
        request_list_print(doors, stdout);
        options_clear(&options);
        return EXIT_SUCCESS;
    case OPTIONS_INVALID:
        fprintf(stderr, "leased: %s\n", error);
        options_clear(&options);
        return EXIT_CODE_USAGE;
    case OPTIONS_RUN:
        break;
    }
    if (!direct_log(options.log_outputs)) {
        fprintf(stderr, "leased: --log-outputs: cannot write to %s: %s\n", options.log_outputs,
                strerror(errno));
        options_clear(&options);
        return EXIT_CODE_USAGE;
    }
    log_configure(options.log_level, options.log_format);
    log_info("starting", LOG_TEXT("version", LEASED_VERSION), LOG_NUMBER("pid", getpid()));
    log_notices(&options);

    if (!log_start_thread()) {
        log_warning("no thread for the log could be started: log lines may delay the server");
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    tune_memory();
    time_slice_shorten();
    setenv("UV_THREADPOOL_SIZE", "4", 0);
    int code = server_run(&options);
    options_clear(&options);
    log_stop_thread();
    return code;
}
