/* `lease completion`: what a shell needs to complete command lines, made from the table of
 * commands. */
#include "cli/cli_commands.h"
#include "cli/command_list.h"

#include <string.h>

/* ---- what all three need ----------------------------------------------------------------------
 */

static bool is_first_of_family(size_t index) {
    size_t size = strcspn(cli_commands[index]->name, " ");
    return index == 0 ||
           strncmp(cli_commands[index - 1]->name, cli_commands[index]->name, size) != 0 ||
           cli_commands[index - 1]->name[size] != ' ' || cli_commands[index]->name[size] == '\0';
}

static void print_first_words(FILE *out) {
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        if (is_first_of_family(i)) {
            fprintf(out, "%s%.*s", i > 0 ? " " : "", (int)strcspn(cli_commands[i]->name, " "),
                    cli_commands[i]->name);
        }
    }
}

static void print_option_names(const struct option_entry *table, FILE *out) {
    for (; table != NULL && table->name != NULL; table++) {
        fprintf(out, " %s", table->name);
    }
}

/* In single quotes for a shell. */
static void print_quoted(const char *text, FILE *out) {
    fputc('\'', out);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
        } else {
            fputc(*text, out);
        }
    }
    fputc('\'', out);
}

/* ---- bash and zsh -----------------------------------------------------------------------------
 */

static void print_bash(FILE *out) {
    fputs("# bash completion for lease: source <(lease completion bash)\n"
          "_lease() {\n"
          "    local word=\"${COMP_WORDS[COMP_CWORD]}\" first=\"\" second=\"\" i words\n"
          "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
          "        case \"${COMP_WORDS[i]}\" in\n"
          "            --) compopt -o default; COMPREPLY=($(compgen -c -- \"$word\")); return ;;\n"
          "            -*) ;;\n"
          "            *) if [ -z \"$first\" ]; then first=\"${COMP_WORDS[i]}\"\n"
          "               elif [ -z \"$second\" ]; then second=\"${COMP_WORDS[i]}\"; fi ;;\n"
          "        esac\n"
          "    done\n"
          "    case \"$first $second\" in\n",
          out);
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        fputs("        ", out);
        print_quoted(cli_commands[i]->name, out);
        fputs(strchr(cli_commands[i]->name, ' ') != NULL ? "*" : "' '*", out);
        fputs(") words='", out);
        print_option_names(cli_commands[i]->options, out);
        fputs("' ;;\n", out);
    }
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        size_t size = strcspn(cli_commands[i]->name, " ");
        if (cli_commands[i]->name[size] != ' ' || !is_first_of_family(i)) {
            continue;
        }
        fprintf(out, "        '%.*s '*) words='", (int)size, cli_commands[i]->name);
        for (size_t k = i; cli_commands[k] != NULL; k++) {
            if (strncmp(cli_commands[k]->name, cli_commands[i]->name, size + 1) == 0) {
                fprintf(out, " %s", cli_commands[k]->name + size + 1);
            }
        }
        fputs("' ;;\n", out);
    }
    fputs("        *) words='", out);
    print_first_words(out);
    fputs("' ;;\n    esac\n    words+='", out);
    print_option_names(cli_global_options, out);
    fputs("'\n    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n", out);
    fputs("complete -F _lease lease\n", out);
}

/* zsh runs bash's completions as they are. */
static void print_zsh(FILE *out) {
    fputs("# zsh completion for lease: source <(lease completion zsh)\n"
          "autoload -Uz bashcompinit && bashcompinit\n",
          out);
    print_bash(out);
}

/* ---- fish -------------------------------------------------------------------------------------
 */

static void print_fish_options(const struct option_entry *table, const char *condition, FILE *out) {
    for (; table != NULL && table->name != NULL; table++) {
        fprintf(out, "complete -c lease%s -l %s", condition, table->name + 2);
        if (table->letter != 0) {
            fprintf(out, " -s %c", table->letter);
        }
        fputs(table->value != NULL ? " -r -d " : " -d ", out);
        print_quoted(table->help, out);
        fputc('\n', out);
    }
}

static void print_fish(FILE *out) {
    fputs("# fish completion for lease: lease completion fish | source\n"
          "complete -c lease -f\n",
          out);
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const char *name = cli_commands[i]->name;
        size_t size = strcspn(name, " ");
        char condition[160];
        if (name[size] == ' ') {
            if (is_first_of_family(i)) {
                fprintf(out, "complete -c lease -n __fish_use_subcommand -a %.*s\n", (int)size,
                        name);
            }
            fprintf(out, "complete -c lease -n '__fish_seen_subcommand_from %.*s' -a %s -d ",
                    (int)size, name, name + size + 1);
            snprintf(condition, sizeof condition,
                     " -n '__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s'",
                     (int)size, name, name + size + 1);
        } else {
            fprintf(out, "complete -c lease -n __fish_use_subcommand -a %s -d ", name);
            snprintf(condition, sizeof condition, " -n '__fish_seen_subcommand_from %s'", name);
        }
        print_quoted(cli_commands[i]->help, out);
        fputc('\n', out);
        print_fish_options(cli_commands[i]->options, condition, out);
    }
    print_fish_options(cli_global_options, "", out);
}

/* ---- the command ------------------------------------------------------------------------------
 */

static enum cli_exit run(struct cli *cli) {
    const char *shell = cli->arguments.words[1];
    if (strcmp(shell, "bash") == 0) {
        print_bash(stdout);
    } else if (strcmp(shell, "zsh") == 0) {
        print_zsh(stdout);
    } else if (strcmp(shell, "fish") == 0) {
        print_fish(stdout);
    } else {
        return cli_usage(cli, "SHELL %s is unknown; give bash, zsh or fish", shell);
    }
    return CLI_OK;
}

const struct cli_command cli_command_completion = {
    .name = "completion",
    .group = CLI_OTHER,
    .usage = "SHELL",
    .help = "print what bash, zsh or fish completes command lines with",
    .examples = "source <(lease completion bash)\n"
                "lease completion fish > ~/.config/fish/completions/lease.fish\n",
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
