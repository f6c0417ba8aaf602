#include "cli/cli_help.h"

#include "cli/cli_commands.h"

#include <ctype.h>
#include <string.h>

static const char environment_text[] =
    "An endpoint is HOST:PORT, http://HOST:PORT, https://HOST:PORT, unix://PATH or\n"
    "unixs://PATH. Without a scheme it is TLS when a TLS option is given.\n"
    "Options may also be set by the environment (LEASED_ENDPOINTS, LEASED_CACERT, LEASED_USER, "
    "...,\n"
    "or etcdctl's names for them, ETCDCTL_ENDPOINTS, ...), and by lines `name = value` in\n"
    "~/.config/lease/config (LEASE_CONFIG names another file). The command line comes first.\n"
    "NO_COLOR turns colors off.\n";

static const char times_text[] = "A TIME is 10 (seconds), 10s, 1500ms, 5m, 1h30m.\n";

static const char exit_text[] =
    "Exit code: 0 done, 1 failed, 2 the command line was wrong. A command that was run gives its\n"
    "own code, or 128 and the number of the signal that ended it; 126, 127: it cannot be run, is "
    "not\n"
    "found; 69: the server cannot be reached or refused; 75: somebody else has it; 76: the lease "
    "was\n"
    "lost and the command ended for it.\n";

static void print_line(const struct cli_command *command, FILE *out) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", command->name, command->usage);
    if (strlen(left) > 34) {
        fprintf(out, "  %s\n  %-34s %s\n", left, "", command->help);
    } else {
        fprintf(out, "  %-34s %s\n", left, command->help);
    }
}

void cli_help_print(FILE *out) {
    fputs(
        "lease: run commands while they hold locks, leaderships, slots or sessions of leased, and\n"
        "inspect and manage the server; locks, elections and leases of etcd, too\n\n"
        "usage: lease [options] COMMAND ...\n",
        out);
    for (int group = 0; group < CLI_GROUPS; group++) {
        bool is_titled = false;
        for (size_t i = 0; cli_commands[i] != NULL; i++) {
            if ((int)cli_commands[i]->group != group) {
                continue;
            }
            if (!is_titled) {
                fprintf(out, "\n%s:\n", cli_group_titles[group]);
                is_titled = true;
            }
            print_line(cli_commands[i], out);
        }
    }
    fputs("\noptions of every command:\n", out);
    arguments_print_options(cli_global_options, out);
    fprintf(out, "\n%s%s%s\n`lease help COMMAND` has examples.\n", environment_text, times_text,
            exit_text);
}

static void print_examples(const struct cli_command *command, FILE *out) {
    if (command->examples == NULL) {
        return;
    }
    fputs("\nexamples:\n", out);
    for (const char *at = command->examples; *at != '\0';) {
        size_t size = strcspn(at, "\n");
        fprintf(out, "  %.*s\n", (int)size, at);
        at += size + (at[size] == '\n' ? 1 : 0);
    }
}

void cli_help_print_command(const struct cli_command *command, FILE *out) {
    fprintf(out, "usage: lease %s%s%s\n\n%s\n", command->name, command->usage[0] != '\0' ? " " : "",
            command->usage, command->help);
    if (command->more != NULL) {
        fprintf(out, "\n%s", command->more);
    }
    if (command->print_more != NULL) {
        fputc('\n', out);
        command->print_more(out);
    }
    print_examples(command, out);
    if (command->options != NULL) {
        fputs("\noptions:\n", out);
        arguments_print_options(command->options, out);
    }
    fputs("\noptions of every command:\n", out);
    arguments_print_options(cli_global_options, out);
}

void cli_help_print_family(const char *word, FILE *out) {
    size_t size = strlen(word);
    fprintf(out, "usage: lease %s COMMAND ...\n\n", word);
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const char *name = cli_commands[i]->name;
        if (strncmp(name, word, size) == 0 && name[size] == ' ') {
            print_line(cli_commands[i], out);
        }
    }
    fprintf(out, "\n`lease help %s COMMAND` has examples.\n", word);
}

/* ---- lease(1) ---------------------------------------------------------------------------------
 */

/* Text for troff: what it would take for itself is written as an escape. */
static void put_text(const char *text, size_t size, FILE *out) {
    for (size_t i = 0; i < size; i++) {
        bool is_line_start = i == 0 || text[i - 1] == '\n';
        if (is_line_start && (text[i] == '.' || text[i] == '\'')) {
            fputs("\\&", out);
        }
        if (text[i] == '\\') {
            fputs("\\e", out);
        } else if (text[i] == '-') {
            fputs("\\-", out);
        } else {
            fputc(text[i], out);
        }
    }
}

static void put(const char *text, FILE *out) {
    put_text(text, strlen(text), out);
}

static void put_options(const struct option_entry *table, FILE *out) {
    for (; table != NULL && table->name != NULL; table++) {
        fputs(".TP\n\\fB", out);
        if (table->letter != 0) {
            fprintf(out, "\\-%c\\fR, \\fB", table->letter);
        }
        put(table->name, out);
        fputs("\\fR", out);
        if (table->value != NULL) {
            fputs(" \\fI", out);
            put(table->value, out);
            fputs("\\fR", out);
        }
        fputc('\n', out);
        put(table->help, out);
        fputc('\n', out);
    }
}

static void put_command(const struct cli_command *command, FILE *out) {
    fputs(".SS lease ", out);
    put(command->name, out);
    fputc(' ', out);
    put(command->usage, out);
    fputc('\n', out);
    put(command->help, out);
    fputs(".\n", out);
    if (command->more != NULL) {
        fputs(".PP\n", out);
        put(command->more, out);
    }
    put_options(command->options, out);
    if (command->examples != NULL) {
        fputs(".PP\nExamples:\n.PP\n.nf\n", out);
        put(command->examples, out);
        fputs(".fi\n", out);
    }
}

void cli_help_print_manual(FILE *out) {
    fputs(".TH LEASE 1\n.SH NAME\nlease \\- hold and look after leases, locks, leaderships and "
          "slots\n"
          ".SH SYNOPSIS\n\\fBlease\\fR [\\fIoptions\\fR] \\fICOMMAND\\fR ...\n.SH COMMANDS\n",
          out);
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        put_command(cli_commands[i], out);
    }
    fputs(".SH OPTIONS\nOf every command:\n", out);
    put_options(cli_global_options, out);
    fputs(".SH ENVIRONMENT\n", out);
    put(environment_text, out);
    put(times_text, out);
    fputs(".SH EXIT STATUS\n", out);
    put(exit_text, out);
    fputs(".SH SEE ALSO\nleased's docs/lease\\-cli.md\n", out);
}
