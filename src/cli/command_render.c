/* `lease render`: a file made from services and keys, written again when they change. */
#include "base/clock.h"
#include "cli/command_list.h"
#include "cli/hold.h"
#include "cli/render_output.h"
#include "cli/render_sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SETTLE_MS = 100, REFRESH_MS = 1000 };

static const struct option_entry options[] = {
    {"--output", 'o', "FILE", "replaced as a whole, when it changes (standard output)"},
    {"--exec", 'x', "COMMAND", "run by the shell after every change"},
    {"--once", 0, NULL, "render once and end"},
    {"--settle", 0, "TIME", "how long to wait for further changes (100ms)"},
    {NULL, 0, NULL, NULL},
};

struct rendering {
    struct cli *cli;
    struct hold hold;
    struct render_sources *sources;
    struct render_template template;
    struct render_output output;
    struct buffer text;    /* of the template */
    struct buffer content; /* as it was rendered last */
    struct arena of_template;
    struct arena arena; /* of one run */
    const char *command;
    int64_t settle_ms;
    bool is_once;
    bool has_written; /* something, at some time */
};

static enum cli_exit fail(const char *what, const char *why) {
    fprintf(stderr, "lease: %s: %s\n", what, why);
    return CLI_FAILED;
}

static enum cli_exit read_template(struct rendering *rendering, const char *path) {
    char error[RENDER_ERROR_SIZE];
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (file == NULL) {
        return fail(path, strerror(errno));
    }
    size_t size;
    do {
        uint8_t *room = buffer_reserve(&rendering->text, BUFSIZ);
        size = fread(room, 1, BUFSIZ, file);
        rendering->text.size += size;
    } while (size > 0 && rendering->text.size <= RENDER_TEMPLATE_SIZE_MAX);
    bool is_read = ferror(file) == 0;
    if (file != stdin) {
        fclose(file);
    }
    if (!is_read) {
        return fail(path, "it cannot be read");
    }
    if (!render_template_parse(bytes_of(rendering->text.data, rendering->text.size),
                               &rendering->of_template, &rendering->template, error)) {
        return fail(path, error);
    }
    return CLI_OK;
}

/* The content is there: to the file, and then the command. */
static enum cli_exit publish(struct rendering *rendering) {
    struct bytes content = bytes_of(rendering->content.data, rendering->content.size);
    enum render_written written = render_output_write(&rendering->output, content);
    const char *name = rendering->output.path[0] != '\0' ? rendering->output.path : "output";
    if (written == RENDER_NOT_WRITTEN) {
        return fail(name, strerror(errno));
    }
    if (written == RENDER_UNCHANGED || rendering->command == NULL) {
        return CLI_OK;
    }
    int code = render_output_run(rendering->command);
    if (code != 0) {
        fprintf(stderr, "lease: %s: exit code %d\n", rendering->command, code);
        return CLI_FAILED;
    }
    return CLI_OK;
}

/* CLI_OK also while something is not known yet; `out_is_done` says whether it was rendered. */
static enum cli_exit render(struct rendering *rendering, bool *out_is_done) {
    struct render_source source = render_sources_source(rendering->sources);
    struct buffer content;
    buffer_init(&content);
    render_sources_take_news(rendering->sources);
    enum render_result result =
        render_template_run(&rendering->template, &source, &rendering->arena, &content);
    arena_reset(&rendering->arena);
    *out_is_done = result == RENDER_DONE;
    enum cli_exit exit = CLI_OK;
    bool is_same =
        rendering->has_written && rendering->content.size == content.size &&
        (content.size == 0 || memcmp(rendering->content.data, content.data, content.size) == 0);
    if (render_sources_error(rendering->sources) != NULL) {
        exit = fail("render", render_sources_error(rendering->sources));
    } else if (result == RENDER_TOO_LARGE) {
        exit = fail("render", "more output or work than a template may make");
    } else if (result == RENDER_DONE && !is_same) {
        struct buffer old = rendering->content;
        rendering->content = content;
        content = old;
        rendering->has_written = true;
        exit = publish(rendering);
    }
    buffer_clear(&content);
    return exit;
}

/* False: a signal told us to stop, or with --once the time is over. */
static bool wait_for_news(struct rendering *rendering, uint64_t give_up_ms) {
    const bool *has_news = render_sources_has_news(rendering->sources);
    while (!*has_news) {
        if (!hold_wait_for_news(&rendering->hold, REFRESH_MS, has_news) ||
            (rendering->is_once && clock_boottime_ms() >= give_up_ms)) {
            return false;
        }
        if (!*has_news) {
            render_sources_refresh(rendering->sources);
        }
    }
    /* Others may follow: they are shown together. */
    return !rendering->has_written ||
           hold_wait_until(&rendering->hold, clock_boottime_ms() + (uint64_t)rendering->settle_ms);
}

static enum cli_exit follow(struct rendering *rendering) {
    uint64_t give_up_ms = clock_boottime_ms() + rendering->cli->timeout_ms;
    for (;;) {
        bool is_done = false;
        enum cli_exit result = render(rendering, &is_done);
        if (render_sources_error(rendering->sources) != NULL ||
            (rendering->is_once && (is_done || result != CLI_OK))) {
            return result;
        }
        if (!wait_for_news(rendering, give_up_ms)) {
            return rendering->is_once ? fail("render", "no server has answered in time") : CLI_OK;
        }
    }
}

static enum cli_exit run_with(struct rendering *rendering) {
    struct cli *cli = rendering->cli;
    const struct hold_options none = {.title = "render"};
    if (!render_output_init(&rendering->output, arguments_value(&cli->arguments, "--output"))) {
        return fail("--output", "the path is too long");
    }
    enum cli_exit result = read_template(rendering, cli->arguments.words[1]);
    if (result != CLI_OK) {
        return result;
    }
    result = hold_open(&rendering->hold, cli, &none);
    if (result == CLI_OK) {
        rendering->sources = render_sources_create(rendering->hold.connection);
        result = follow(rendering);
    }
    render_sources_destroy(rendering->sources);
    hold_close(&rendering->hold);
    return result == CLI_NOT_RUN ? CLI_FAILED : result;
}

static enum cli_exit run(struct cli *cli) {
    struct rendering *rendering = calloc(1, sizeof *rendering);
    if (rendering == NULL) {
        abort();
    }
    rendering->cli = cli;
    rendering->command = arguments_value(&cli->arguments, "--exec");
    rendering->is_once = arguments_has(&cli->arguments, "--once");
    buffer_init(&rendering->text);
    buffer_init(&rendering->content);
    arena_init(&rendering->of_template);
    arena_init(&rendering->arena);
    enum cli_exit result = CLI_USAGE;
    if (cli_time_option(cli, "--settle", SETTLE_MS, 0, &rendering->settle_ms)) {
        result = run_with(rendering);
    }
    arena_clear(&rendering->arena);
    arena_clear(&rendering->of_template);
    buffer_clear(&rendering->content);
    buffer_clear(&rendering->text);
    free(rendering);
    return result;
}

const struct cli_command cli_command_render = {
    .name = "render",
    .group = CLI_LOOK,
    .usage = "TEMPLATE",
    .help = "write a file from services and keys, and again when they change",
    .more =
        "A template is text with actions: {{each service \"web\" tag \"v2\"}} … {{else}} … "
        "{{end}},\n"
        "{{each services}}, {{each keys \"PREFIX\"}}, {{if .zone == \"a\"}}, {{key \"NAME\" or "
        "\"text\"}},\n"
        "{{.address}}, {{.port}}, {{.meta.KEY}}; docs/lease-cli.md has them all. The file is\n"
        "replaced by a rename, only when its content changes; so is the file of `> FILE`. Nothing\n"
        "is written before everything that the template names is known.\n",
    .examples = "lease render upstream.tmpl --once\n"
                "lease render upstream.tmpl -o /etc/nginx/upstream.conf --exec 'nginx -s reload'\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
