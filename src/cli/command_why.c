/* `lease why`: what happened to a resource, a pool or a session: how it ended, when, and by whom.
 */
#include "cli/cli_format.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"
#include "cli/lease_id.h"

#include <inttypes.h>
#include <string.h>

enum { LIMIT_DEFAULT = 10, LIMIT_MAX = 1000 };

static const struct option_entry options[] = {
    {"--pool", 0, NULL, "the name is a pool's"},
    {"--session", 0, NULL, "it is the id of a session, as ls shows it"},
    {"--limit", 0, "N", "how many ends are shown (10)"},
    {NULL, 0, NULL, NULL},
};

static const char *sentence_of(enum lease_end_reason reason) {
    switch (reason) {
    case LEASE_END_RELEASED:
        return "given back by its holder";
    case LEASE_END_EXPIRED:
        return "expired: its holder did not renew it in time";
    case LEASE_END_REVOKED:
        return "revoked by somebody else";
    case LEASE_END_PARENT:
        return "ended with the session that it belonged to";
    case LEASE_END_TRANSFERRED:
        return "handed to another session by its holder";
    case LEASE_END_HOLD_LIMIT:
        return "ended because its hold limit was over";
    case LEASE_END_SESSION_ENDED:
        return "given back by its holder, with its session";
    case LEASE_END_LEFT_QUEUE:
        return "left the queue";
    default:
        return lease_end_reason_text(reason);
    }
}

static void print_ended(const struct lease_ended *ended) {
    char text[CLI_TEXT_SIZE_MAX];
    char when[CLI_WALL_SIZE_MAX];
    char id[LEASE_ID_TEXT_SIZE_MAX];
    const struct lease_acquisition *acquisition = ended->acquisition;
    printf("%s  %s\n", cli_wall_time(ended->wall_ms, when), sentence_of(ended->reason));
    if (acquisition != NULL) {
        printf("    %s", cli_wants(acquisition, text));
        printf(" of %s, session %s", cli_plain(acquisition->owner, text),
               lease_id_format(acquisition->session_id, id));
        if (acquisition->token != 0) {
            printf(", token %" PRId64, acquisition->token);
            printf(", held since %s", cli_wall_time(acquisition->acquired_wall_ms, when));
        }
        putchar('\n');
    } else if (ended->session != NULL) {
        printf("    session %s of %s\n", lease_id_format(ended->session->id, id),
               cli_plain(ended->session->owner, text));
    }
    printf("    at revision %" PRId64, ended->revision);
    if (ended->by != NULL && ended->by[0] != '\0') {
        printf(", asked for by %s", cli_plain(ended->by, text));
    }
    if (ended->reason == LEASE_END_EXPIRED && ended->last_renewal_before_ms >= 0) {
        printf(", last renewed %s before", cli_remaining(ended->last_renewal_before_ms, when));
    }
    if (ended->session != NULL && ended->session->ttl_ms > 0) {
        printf(", its TTL was %s", cli_remaining(ended->session->ttl_ms, when));
    }
    putchar('\n');
    if (ended->session != NULL && ended->session->note != NULL && ended->session->note[0] != '\0') {
        printf("    it ran: %s\n", cli_plain(ended->session->note, text));
    }
}

static void print_history(const struct lease_history *history) {
    char text[CLI_TEXT_SIZE_MAX];
    char when[CLI_WALL_SIZE_MAX];
    for (size_t i = 0; i < history->n_holders; i++) {
        const struct lease_acquisition *each = &history->holders[i];
        printf("now held by %s", cli_plain(each->owner, text));
        printf(", token %" PRId64 ", since %s\n", each->token,
               cli_wall_time(each->acquired_wall_ms, when));
    }
    if (history->session != NULL) {
        printf("the session lives: %s", cli_plain(history->session->owner, text));
        printf(", %s left\n", cli_remaining(history->session->remaining_ms, when));
    } else if (history->n_holders == 0) {
        puts("nobody has it now");
    }
    for (size_t i = 0; i < history->n_ended; i++) {
        print_ended(&history->ended[i]);
    }
    if (history->n_ended == 0) {
        puts("nothing that ended is remembered");
    }
}

static json_t *history_json(const struct lease_history *history) {
    json_t *holders = json_array();
    json_t *ended = json_array();
    for (size_t i = 0; i < history->n_holders; i++) {
        json_array_append_new(holders, cli_acquisition_json(&history->holders[i]));
    }
    for (size_t i = 0; i < history->n_ended; i++) {
        json_array_append_new(ended, cli_ended_json(&history->ended[i]));
    }
    return json_pack("{s:o, s:o, s:o}", "holders", holders, "ended", ended, "session",
                     history->session != NULL ? cli_session_json(history->session) : json_null());
}

static enum lease_status ask(struct lease_connection *connection, struct cli *cli, int64_t limit,
                             const struct lease_history **out_history) {
    const char *word = cli->arguments.words[1];
    struct lease_why_query query = LEASE_WHY_QUERY_INIT;
    query.limit = (uint32_t)limit;
    if (arguments_has(&cli->arguments, "--pool")) {
        query.pool = word;
        return lease_why(connection, &query, out_history);
    }
    if (!arguments_has(&cli->arguments, "--session")) {
        query.resource = word;
        enum lease_status status = lease_why(connection, &query, out_history);
        bool is_something =
            status != LEASE_OK || (*out_history)->n_ended > 0 || (*out_history)->n_holders > 0;
        /* A word of hex digits that is no name may be a session's id. */
        if (is_something || strlen(word) < 8 ||
            lease_id_parse(word, &query.session_id) != STATUS_OK) {
            return status;
        }
        lease_free(*out_history);
        *out_history = NULL;
        query.resource = NULL;
        return lease_why(connection, &query, out_history);
    }
    lease_id_parse(word, &query.session_id);
    return lease_why(connection, &query, out_history);
}

static enum cli_exit run(struct cli *cli) {
    struct lease_connection *connection;
    const struct lease_history *history = NULL;
    int64_t limit;
    int64_t id;
    if (!arguments_number(&cli->arguments, "--limit", LIMIT_DEFAULT,
                          (struct arguments_range){.min = 1, .max = LIMIT_MAX}, &limit)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    if (arguments_has(&cli->arguments, "--session") &&
        lease_id_parse(cli->arguments.words[1], &id) != STATUS_OK) {
        return cli_usage(cli, "--session %s is not an id; give one to sixteen hex digits",
                         cli->arguments.words[1]);
    }
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status = ask(connection, cli, limit, &history);
    if (status != LEASE_OK) {
        result = cli_lease_failed(cli, status, NULL);
    } else if (cli->json) {
        cli_print_json(history_json(history));
    } else {
        print_history(history);
    }
    lease_free(history);
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_why = {
    .name = "why",
    .group = CLI_LOOK,
    .usage = "NAME|ID",
    .help = "show how holds of a lock, a leadership, a slot or a session ended",
    .more =
        "Newest first: when and how it ended (released, expired, revoked, ...), by whom, at which\n"
        "revision, when it had last been renewed, and which command its holder ran.\n",
    .examples = "lease why backup\nlease why --pool gpus\nlease why 694d7c8d2b6ab807\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
