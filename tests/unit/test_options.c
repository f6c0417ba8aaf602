#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "doors/doors.h"
#include "server/option_set.h"
#include "server/options.h"

#include <stdlib.h>
#include <string.h>

static struct options options;
static char error[OPTIONS_ERROR_SIZE];
static char *no_environment[] = {NULL};

#define PARSE_IN(environment, ...) parse((char *[]){"leased", ##__VA_ARGS__, NULL}, (environment))
#define PARSE(...) PARSE_IN(no_environment, ##__VA_ARGS__)

static enum options_result parse(char **argv, char **environment) {
    int argc = 0;
    while (argv[argc] != NULL) {
        argc++;
    }
    options_clear(&options);
    error[0] = '\0';
    return options_parse(&options, &all_doors, argc, argv, environment, error);
}

static void assert_error_says(const char *text) {
    if (strstr(error, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", error, text);
    }
}

static bool has_notice(const char *text) {
    for (size_t i = 0; i < options.n_notices; i++) {
        if (strstr(options.notices[i].text, text) != NULL) {
            return true;
        }
    }
    return false;
}

static int tear_down(void **state) {
    options_clear(&options);
    return 0;
}

static void without_flags_one_node_is_served_on_loopback(void **state) {
    assert_int_equal(PARSE(), OPTIONS_RUN);
    assert_string_equal(options.name, "default");
    assert_string_equal(options.data_dir, "default.leased");
    assert_int_equal(options.listen_client_urls.n, 1);
    assert_string_equal(options.listen_client_urls.texts[0], "http://127.0.0.1:2379");
    assert_string_equal(options.advertise_client_urls.texts[0], "http://127.0.0.1:2379");
    assert_string_equal(options.initial_advertise_peer_urls.texts[0], "http://127.0.0.1:2380");
    assert_string_equal(options.peer_address, "127.0.0.1:2380");
    assert_int_equal(options.heartbeat_interval_ms, 50);
    assert_int_equal(options.election_timeout_ms, 300);
    assert_int_equal(options.log_level, LOG_INFO);
    assert_int_equal(options.log_format, LOG_FORMAT_TEXT);
    assert_int_equal(options.max_txn_ops, 128);
    assert_int_equal(options.grpc_keepalive_interval_ms, -1);
    assert_int_equal(options.auto_compaction_retention_ms, 3600000);
    assert_false(options.keeps_all_history);
    assert_false(options.allow_insecure);
    assert_int_equal(options.n_notices, 0);
}

static void a_value_follows_or_is_joined_by_an_equals_sign(void **state) {
    assert_int_equal(PARSE("--name", "a", "-data-dir=/x=y", "--heartbeat-interval=7"), OPTIONS_RUN);
    assert_string_equal(options.name, "a");
    assert_string_equal(options.data_dir, "/x=y");
    assert_int_equal(options.heartbeat_interval_ms, 7);
}

static void the_last_of_two_equal_flags_wins(void **state) {
    assert_int_equal(PARSE("--name", "a", "--name", "b"), OPTIONS_RUN);
    assert_string_equal(options.name, "b");
}

static void the_data_dir_is_named_after_the_member(void **state) {
    assert_int_equal(PARSE("--name", "node1"), OPTIONS_RUN);
    assert_string_equal(options.data_dir, "node1.leased");
}

static void a_switch_needs_no_value_and_takes_one_only_after_an_equals_sign(void **state) {
    assert_int_equal(PARSE("--allow-insecure"), OPTIONS_RUN);
    assert_true(options.allow_insecure);
    assert_int_equal(PARSE("--allow-insecure=false"), OPTIONS_RUN);
    assert_false(options.allow_insecure);
    assert_int_equal(PARSE("--allow-insecure", "false"), OPTIONS_INVALID);
    assert_error_says("\"false\" is not a flag");
    assert_int_equal(PARSE("--allow-insecure=maybe"), OPTIONS_INVALID);
    assert_error_says("neither true nor false");
}

static void flags_win_over_our_variables_and_these_over_those_of_etcd(void **state) {
    char *environment[] = {"ETCD_NAME=etcd", "LEASED_NAME=leased", "ETCD_DATA_DIR=/etcd",
                           "LEASED_LOG_LEVEL=error", NULL};
    assert_int_equal(PARSE_IN(environment), OPTIONS_RUN);
    assert_string_equal(options.name, "leased");
    assert_string_equal(options.data_dir, "/etcd");
    assert_int_equal(options.log_level, LOG_ERROR);
    assert_int_equal(PARSE_IN(environment, "--name", "flag"), OPTIONS_RUN);
    assert_string_equal(options.name, "flag");
}

static void an_empty_variable_counts_as_not_set(void **state) {
    char *environment[] = {"ETCD_NAME=etcd", "LEASED_NAME=", NULL};
    assert_int_equal(PARSE_IN(environment), OPTIONS_RUN);
    assert_string_equal(options.name, "etcd");
}

static void a_wrong_value_is_blamed_on_where_it_came_from(void **state) {
    char *environment[] = {"ETCD_HEARTBEAT_INTERVAL=soon", NULL};
    assert_int_equal(PARSE_IN(environment), OPTIONS_INVALID);
    assert_error_says("ETCD_HEARTBEAT_INTERVAL: \"soon\" is not a whole number");
    assert_int_equal(PARSE("--heartbeat-interval", "soon"), OPTIONS_INVALID);
    assert_error_says("--heartbeat-interval: \"soon\"");
}

static void an_unknown_variable_is_noticed_but_does_no_harm(void **state) {
    char *environment[] = {"ETCD_PORT_2379_TCP=x", "LEASED_NAMES=y",
                           "ETCDCTL_API=3",        "HOME=/",
                           "LEASED_ENDPOINTS=z",   NULL}; /* the last one is of `lease` */
    assert_int_equal(PARSE_IN(environment), OPTIONS_RUN);
    assert_int_equal(options.n_notices, 2);
    assert_true(has_notice("ETCD_PORT_2379_TCP"));
    assert_true(has_notice("LEASED_NAMES"));
}

static void an_unknown_flag_is_refused_with_the_nearest_name(void **state) {
    assert_int_equal(PARSE("--data-dri", "x"), OPTIONS_INVALID);
    assert_error_says("unknown flag --data-dri; did you mean --data-dir?");
    assert_int_equal(PARSE("--listen-client-url=x"), OPTIONS_INVALID);
    assert_error_says("did you mean --listen-client-urls?");
    assert_int_equal(PARSE("--listen-client"), OPTIONS_INVALID);
    assert_error_says("did you mean --listen-client-urls?");
    assert_int_equal(PARSE("--colour"), OPTIONS_INVALID);
    assert_error_says("unknown flag --colour; leased --help");
    assert_int_equal(PARSE("serve"), OPTIONS_INVALID);
    assert_error_says("\"serve\" is not a flag");
    assert_int_equal(PARSE("-"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--=x"), OPTIONS_INVALID);
}

static void an_endless_flag_name_is_refused(void **state) {
    char *flag = malloc(100001);
    memset(flag, '-', 2);
    memset(flag + 2, 'x', 99998);
    flag[100000] = '\0';
    assert_int_equal(PARSE(flag), OPTIONS_INVALID);
    assert_error_says("unknown flag");
    free(flag);
}

static void a_flag_at_the_end_misses_its_value(void **state) {
    assert_int_equal(PARSE("--name"), OPTIONS_INVALID);
    assert_error_says("--name needs a value");
}

static void help_and_version_win_over_what_follows(void **state) {
    assert_int_equal(PARSE("--help", "--nonsense"), OPTIONS_HELP);
    assert_int_equal(PARSE("-h"), OPTIONS_HELP);
    assert_int_equal(PARSE("--name", "x", "--version"), OPTIONS_VERSION);
    assert_int_equal(PARSE("--nonsense", "--help"), OPTIONS_INVALID);
}

static void numbers_are_held_to_their_bounds(void **state) {
    assert_int_equal(PARSE("--max-txn-ops", "64"), OPTIONS_RUN);
    assert_int_equal(options.max_txn_ops, 64);
    assert_int_equal(PARSE("--max-txn-ops", "129"), OPTIONS_INVALID);
    assert_error_says("129 is not between 1 and 128");
    assert_int_equal(PARSE("--max-request-bytes", "10485760"), OPTIONS_RUN);
    assert_int_equal(options.max_request_bytes, 10485760);
    assert_int_equal(PARSE("--max-request-bytes", "16777217"), OPTIONS_INVALID);
    assert_error_says("16777217 is not between 1 and 16777216");
    assert_int_equal(PARSE("--max-txn-ops", "-1"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--max-txn-ops", ""), OPTIONS_INVALID);
    assert_int_equal(PARSE("--quota-backend-bytes", "18446744073709551616"), OPTIONS_INVALID);
}

static void words_are_held_to_their_choices(void **state) {
    assert_int_equal(PARSE("--log-format", "json", "--log-level=warn"), OPTIONS_RUN);
    assert_int_equal(options.log_format, LOG_FORMAT_JSON);
    assert_int_equal(options.log_level, LOG_WARNING);
    assert_int_equal(PARSE("--log-format", "jso"), OPTIONS_INVALID);
    assert_error_says("none of text|console|json");
    assert_int_equal(PARSE("--log-format", "text|json"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--debug"), OPTIONS_RUN);
    assert_int_equal(options.log_level, LOG_DEBUG);
    assert_int_equal(PARSE("--log-outputs", "stdout,stderr"), OPTIONS_RUN);
    assert_string_equal(options.log_outputs, "stdout");
    assert_true(has_notice("--log-outputs: lines are written to stdout alone; give one output"));
}

static void tls_for_clients_needs_a_certificate_and_its_key(void **state) {
    assert_int_equal(PARSE("--listen-client-urls", "https://127.0.0.1:2379"), OPTIONS_INVALID);
    assert_error_says("TLS needs a certificate");
    assert_int_equal(PARSE("--listen-metrics-urls", "unixs:///run/x"), OPTIONS_INVALID);
    assert_error_says("must be provided for metrics secure url");
    assert_int_equal(PARSE("--cert-file", "server.crt"), OPTIONS_INVALID);
    assert_error_says("--key-file is missing");
    char *environment[] = {"ETCD_KEY_FILE=server.key", NULL};
    assert_int_equal(PARSE_IN(environment), OPTIONS_INVALID);
    assert_error_says("--cert-file is missing");
    assert_int_equal(PARSE("--listen-client-urls", "https://0.0.0.0:2379", "--cert-file", "a.crt",
                           "--key-file", "a.key"),
                     OPTIONS_RUN);
    assert_true(options.has_client_tls);
    assert_string_equal(options.tls_min_version, "TLS1.2");
    assert_false(has_notice("plain text"));
    assert_int_equal(PARSE("--listen-client-urls", "https://127.0.0.1:2379", "--auto-tls"),
                     OPTIONS_RUN);
    assert_true(options.has_client_tls);
    assert_int_equal(PARSE("--client-cert-auth=false", "--cert-file="), OPTIONS_RUN);
    assert_false(options.has_client_tls);
}

static void certificate_without_a_tls_listener_is_noticed(void **state) {
    assert_int_equal(PARSE("--cert-file", "a.crt", "--key-file", "a.key", "--auto-tls"),
                     OPTIONS_RUN);
    assert_true(has_notice("http://127.0.0.1:2379 is served in plain text"));
    assert_true(has_notice("--auto-tls has no effect"));
    assert_false(options.auto_tls);
    assert_int_equal(PARSE("--cert-file", "a.crt", "--key-file", "a.key", "--listen-client-urls",
                           "http://0.0.0.0:2379"),
                     OPTIONS_INVALID);
    assert_error_says("--allow-insecure");
}

static void under_the_name_of_etcd_it_has_etcds_defaults(void **state) {
    (void)state;
    char *const arguments[] = {"/usr/bin/etcd", "--listen-client-urls", "http://0.0.0.0:0",
                               "--advertise-client-urls", "http://0.0.0.0:0"};
    char *const others[] = {"etcd", "--log-format=text", "--allow-insecure=false",
                            "--listen-client-urls", "http://0.0.0.0:2379"};
    char *const compacting[] = {"etcd", "--auto-compaction-retention=1h"};
    char *const nothing[] = {NULL};
    char error[OPTIONS_ERROR_SIZE];
    struct options named;
    assert_int_equal(options_parse(&named, &all_doors, 5, arguments, nothing, error), OPTIONS_RUN);
    assert_true(named.allow_insecure);
    assert_int_equal(named.log_format, LOG_FORMAT_JSON);
    assert_true(named.keeps_all_history);
    assert_int_equal(named.listen_client_urls.urls[0].port, 0);
    options_clear(&named);
    assert_int_equal(options_parse(&named, &all_doors, 5, others, nothing, error), OPTIONS_INVALID);
    assert_int_equal(named.allow_insecure, false);
    options_clear(&named);
    assert_int_equal(options_parse(&named, &all_doors, 2, compacting, nothing, error), OPTIONS_RUN);
    assert_false(named.keeps_all_history);
    options_clear(&named);
}

static void demands_on_client_certificates_need_an_authority(void **state) {
    static char *const demands[] = {"--client-cert-auth", "--client-cert-allowed-cn=a",
                                    "--client-cert-allowed-hostname=a", "--client-crl-file=a"};
    for (size_t i = 0; i < sizeof demands / sizeof demands[0]; i++) {
        assert_int_equal(PARSE("--auto-tls", demands[i]), OPTIONS_INVALID);
        assert_error_says("needs --trusted-ca-file");
        assert_int_equal(PARSE("--auto-tls", "--trusted-ca-file=ca.crt", demands[i]), OPTIONS_RUN);
    }
    assert_int_equal(PARSE("--auto-tls", "--trusted-ca-file=ca.crt", demands[1], demands[2]),
                     OPTIONS_INVALID);
    assert_error_says("exclude each other");
    assert_int_equal(PARSE("--tls-min-version", "TLS1.1"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--tls-max-version", "TLS1.2"), OPTIONS_RUN);
    assert_int_equal(PARSE("--tls-max-version="), OPTIONS_RUN);
}

static void flags_between_members_that_cannot_be_kept_are_refused(void **state) {
    assert_int_equal(PARSE("--listen-peer-urls", "https://127.0.0.1:2380"), OPTIONS_INVALID);
    /* A Unix socket has no port; with TLS it needs a certificate, as every peer URL. */
    assert_int_equal(PARSE("--listen-peer-urls", "unix:///run/x"), OPTIONS_RUN);
    assert_string_equal(options.peer_address, "unix:///run/x");
    assert_int_equal(PARSE("--listen-peer-urls", "unixs:///run/x"), OPTIONS_INVALID);
    assert_error_says("TLS between members needs");
    assert_int_equal(PARSE("--listen-peer-urls", "unix:///run/x", "--peer-auto-tls"),
                     OPTIONS_INVALID);
    assert_error_says("say unixs://");
    assert_int_equal(PARSE("--listen-peer-urls", "unixs://n1:2380", "--peer-auto-tls"),
                     OPTIONS_RUN);
    assert_string_equal(options.peer_address, "unix://n1:2380");
    assert_true(options.is_peer_port_asked_for);
    assert_int_equal(PARSE("--listen-peer-urls", "http://127.0.0.1:2380"), OPTIONS_RUN);
    assert_false(options.is_peer_port_asked_for);
    assert_int_equal(PARSE("--listen-peer-urls", "http://127.0.0.1:0"), OPTIONS_INVALID);
    assert_error_says("members must know the port");
    assert_int_equal(PARSE("--peer-client-cert-file", "a.crt"), OPTIONS_INVALID);
    assert_error_says("one certificate in both directions");
    /* Certificates of the system's authorities are trusted then. */
    assert_int_equal(PARSE("--listen-peer-urls", "https://127.0.0.1:2380", "--peer-cert-file",
                           "a.crt", "--peer-key-file", "a.key", "--peer-client-cert-file", "a.crt",
                           "--peer-client-key-file", "a.key"),
                     OPTIONS_RUN);
    assert_int_equal(PARSE("--listen-peer-urls", "https://127.0.0.1:2380", "--peer-cert-file",
                           "a.crt", "--peer-key-file", "a.key", "--peer-client-key-file", "b.key"),
                     OPTIONS_INVALID);
    assert_error_says("one certificate in both directions");
}

/* A member's own certificate proves nothing, so the rules for plain text hold. */
static void a_certificate_of_a_members_own_needs_a_secret_beside_it(void **state) {
    assert_int_equal(PARSE("--peer-auto-tls"), OPTIONS_INVALID);
    assert_error_says("members speak TLS here (--peer-auto-tls)");
    assert_int_equal(PARSE("--peer-auto-tls", "--listen-peer-urls", "https://127.0.0.1:2380"),
                     OPTIONS_RUN);
    assert_true(options.has_peer_tls);
    assert_int_equal(PARSE("--peer-auto-tls", "--listen-peer-urls", "https://10.0.0.1:2380"),
                     OPTIONS_INVALID);
    assert_error_says("--peer-secret-file");
    assert_int_equal(PARSE("--peer-auto-tls", "--listen-peer-urls", "https://10.0.0.1:2380",
                           "--peer-secret-file", "s"),
                     OPTIONS_RUN);
    assert_int_equal(
        PARSE("--peer-auto-tls", "--listen-peer-urls", "https://10.0.0.1:2380", "--allow-insecure"),
        OPTIONS_RUN);
    assert_int_equal(PARSE("--peer-auto-tls", "--listen-peer-urls", "https://10.0.0.1:2380",
                           "--peer-cert-file=a.crt", "--peer-key-file=a.key",
                           "--peer-trusted-ca-file=ca.crt"),
                     OPTIONS_RUN);
    assert_false(options.peer_auto_tls);
    assert_true(has_notice("--peer-auto-tls has no effect: --peer-cert-file is given"));
}

static void tls_between_members_is_all_or_nothing(void **state) {
    static char *const flags[] = {
        "--peer-cert-file=a.crt",         "--peer-key-file=a.key",
        "--peer-trusted-ca-file=ca.crt",  "--peer-client-cert-auth",
        "--peer-cert-allowed-cn=members", "--peer-cert-allowed-hostname=members.example",
        "--peer-crl-file=revoked.pem"};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        assert_int_equal(PARSE("--listen-peer-urls", "https://127.0.0.1:2380", flags[i]),
                         OPTIONS_INVALID);
        assert_error_says("is missing");
    }
    assert_int_equal(
        PARSE("--listen-peer-urls", "https://10.0.0.1:2380", flags[0], flags[1], flags[2]),
        OPTIONS_RUN);
    assert_true(options.has_peer_tls);
    assert_string_equal(options.peer_key_file, "a.key");
    assert_int_equal(PARSE("--listen-peer-urls", "https://127.0.0.1:2380", flags[0], flags[1],
                           flags[2], flags[3], flags[4], flags[5], flags[6]),
                     OPTIONS_RUN);
    assert_string_equal(options.peer_crl_file, "revoked.pem");
    assert_string_equal(options.peer_cert_allowed_cn, "members");
    char *environment[] = {"ETCD_PEER_CERT_FILE=a.crt", "ETCD_PEER_KEY_FILE=a.key",
                           "LEASED_PEER_TRUSTED_CA_FILE=ca.crt",
                           "ETCD_LISTEN_PEER_URLS=https://127.0.0.1:2380", NULL};
    assert_int_equal(PARSE_IN(environment), OPTIONS_RUN);
    assert_true(options.has_peer_tls);
    assert_int_equal(PARSE("--listen-peer-urls", "http://127.0.0.1:2380"), OPTIONS_RUN);
    assert_false(options.has_peer_tls);
}

static void all_peer_urls_are_alike(void **state) {
    static char *const tls[] = {"--peer-cert-file=a.crt", "--peer-key-file=a.key",
                                "--peer-trusted-ca-file=ca.crt"};
    assert_int_equal(PARSE(tls[0], tls[1], tls[2]), OPTIONS_INVALID);
    assert_error_says("--listen-peer-urls http://127.0.0.1:2380");
    assert_int_equal(PARSE("--name", "a", "--listen-peer-urls", "https://127.0.0.1:1",
                           "--initial-cluster", "a=https://127.0.0.1:1,b=http://127.0.0.1:2",
                           tls[0], tls[1], tls[2]),
                     OPTIONS_INVALID);
    assert_error_says("--initial-cluster http://127.0.0.1:2");
    assert_int_equal(PARSE("--initial-advertise-peer-urls", "https://127.0.0.1:2380"),
                     OPTIONS_INVALID);
    assert_error_says("--initial-advertise-peer-urls https://127.0.0.1:2380: TLS between members");
    assert_int_equal(PARSE("--name", "a", "--listen-peer-urls", "https://127.0.0.1:1",
                           "--initial-cluster", "a=https://127.0.0.1:1,b=https://b.example:2",
                           tls[0], tls[1], tls[2]),
                     OPTIONS_RUN);
}

static void a_refused_flag_may_repeat_its_default(void **state) {
    assert_int_equal(PARSE("--discovery", "https://d.example"), OPTIONS_INVALID);
    assert_error_says("--discovery: discovery is not supported");
    assert_int_equal(PARSE("--config-file", "/nonexistent/etcd.yml"), OPTIONS_INVALID);
    assert_error_says("--config-file /nonexistent/etcd.yml: No such file");
    assert_int_equal(PARSE("--proxy", "off"), OPTIONS_RUN);
    assert_int_equal(PARSE("--proxy", "on"), OPTIONS_INVALID);
}

static void forcing_a_new_cluster_must_be_asked_for(void **state) {
    assert_int_equal(PARSE("--name", "a"), OPTIONS_RUN);
    assert_false(options.force_new_cluster);
    assert_int_equal(PARSE("--force-new-cluster"), OPTIONS_RUN);
    assert_true(options.force_new_cluster);
    assert_int_equal(PARSE("--force-new-cluster=maybe"), OPTIONS_INVALID);
}

static void harmless_flags_of_etcd_are_accepted_and_noticed(void **state) {
    assert_int_equal(PARSE("--logger", "zap", "--pre-vote=true", "--enable-v2",
                           "--strict-reconfig-check", "--snapshot-count=10000"),
                     OPTIONS_RUN);
    assert_int_equal(options.n_notices, 4);
    assert_int_equal(options.log_format, LOG_FORMAT_JSON);
    assert_true(has_notice("--pre-vote is accepted and has no effect"));
}

static void a_listener_that_others_reach_must_be_allowed(void **state) {
    assert_int_equal(PARSE("--listen-client-urls", "http://0.0.0.0:2379"), OPTIONS_INVALID);
    assert_error_says("--allow-insecure");
    assert_int_equal(PARSE("--listen-peer-urls", "http://10.0.0.1:2380"), OPTIONS_INVALID);
    assert_error_says("--listen-peer-urls");
    assert_int_equal(PARSE("--listen-metrics-urls", "http://10.0.0.1:2381"), OPTIONS_INVALID);
    assert_error_says("--listen-metrics-urls");
    assert_int_equal(PARSE("--listen-client-urls", "http://127.0.0.1:1,http://[::]:1"),
                     OPTIONS_INVALID);
    assert_int_equal(PARSE("--allow-insecure", "--listen-client-urls", "http://0.0.0.0:2379"),
                     OPTIONS_RUN);
}

static void a_wildcard_is_not_advertised(void **state) {
    assert_int_equal(
        PARSE("--allow-insecure", "--listen-client-urls", "http://0.0.0.0:5,http://[::]:6"),
        OPTIONS_RUN);
    assert_string_equal(options.advertise_client_urls.texts[0], "http://127.0.0.1:5");
    assert_string_equal(options.advertise_client_urls.texts[1], "http://[::1]:6");
    assert_true(has_notice("--advertise-client-urls"));
    assert_int_equal(PARSE("--allow-insecure", "--listen-client-urls", "http://0.0.0.0:5",
                           "--advertise-client-urls", "https://front.example:443"),
                     OPTIONS_RUN);
    assert_string_equal(options.advertise_client_urls.texts[0], "https://front.example:443");
    assert_int_equal(options.n_notices, 0);
}

static void the_initial_cluster_names_this_member_and_others(void **state) {
    assert_int_equal(PARSE("--name", "n1", "--initial-cluster", "n1=http://127.0.0.1:9"),
                     OPTIONS_RUN);
    assert_string_equal(options.initial_advertise_peer_urls.texts[0], "http://127.0.0.1:9");
    assert_int_equal(
        PARSE("--name", "n1", "--initial-cluster", "n1=http://127.0.0.1:9,n2=http://127.0.0.1:10"),
        OPTIONS_RUN);
    assert_int_equal(options.n_members, 2);
    assert_string_equal(options.members[1].name, "n2");
    assert_string_equal(options.members[1].peer_urls.texts[0], "http://127.0.0.1:10");
    assert_string_equal(options.peer_address, "127.0.0.1:9");
    assert_false(options.is_named_otherwise);
    assert_int_equal(PARSE("--name", "n1", "--initial-cluster", "n2=http://127.0.0.1:10"),
                     OPTIONS_INVALID);
    assert_error_says("does not name this member, \"n1\"");
    assert_int_equal(PARSE("--name", "n1", "--initial-cluster", "n1=http://127.0.0.1:9",
                           "--initial-advertise-peer-urls", "http://127.0.0.1:8"),
                     OPTIONS_RUN);
    /* Refused at a first start; a member that has moved may be started with its old flags. */
    assert_true(options.is_named_otherwise);
    assert_int_equal(PARSE("--initial-cluster", "nonsense"), OPTIONS_INVALID);
    assert_error_says("name=URL");
    assert_int_equal(PARSE("--initial-cluster", "default=127.0.0.1:9"), OPTIONS_INVALID);
}

static void names_that_would_break_files_or_lists_are_refused(void **state) {
    assert_int_equal(PARSE("--name", ""), OPTIONS_INVALID);
    assert_int_equal(PARSE("--name", "a=b"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--name", "a,b"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--name", "a\nb"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--name", "a/b"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--name", "a/b", "--data-dir", "x"), OPTIONS_RUN);
}

static void an_election_lasts_at_least_five_heartbeats(void **state) {
    assert_int_equal(PARSE("--heartbeat-interval=200", "--election-timeout=1000"), OPTIONS_RUN);
    assert_int_equal(PARSE("--heartbeat-interval=201", "--election-timeout=1000"), OPTIONS_INVALID);
    assert_error_says("at least 5 times");
}

static void compaction_counts_hours_durations_or_revisions(void **state) {
    assert_int_equal(PARSE("--auto-compaction-retention", "2"), OPTIONS_RUN);
    assert_int_equal(options.auto_compaction_retention_ms, 7200000);
    assert_int_equal(PARSE("--auto-compaction-retention", "5m"), OPTIONS_RUN);
    assert_int_equal(options.auto_compaction_retention_ms, 300000);
    assert_int_equal(
        PARSE("--auto-compaction-mode", "revision", "--auto-compaction-retention", "1000"),
        OPTIONS_RUN);
    assert_int_equal(options.auto_compaction_revisions, 1000);
    assert_int_equal(options.auto_compaction_retention_ms, 0);
    assert_int_equal(
        PARSE("--auto-compaction-mode", "revision", "--auto-compaction-retention", "5m"),
        OPTIONS_INVALID);
    assert_int_equal(PARSE("--auto-compaction-retention", "soon"), OPTIONS_INVALID);
    assert_int_equal(PARSE("--auto-compaction-retention", "0"), OPTIONS_RUN);
    assert_true(options.keeps_all_history);
    assert_int_equal(PARSE("--auto-compaction-mode", "revision"), OPTIONS_RUN);
    assert_int_equal(options.auto_compaction_revisions, 0);
    assert_int_equal(options.auto_compaction_retention_ms, 0);
    assert_false(options.keeps_all_history);
}

static void history_has_at_least_a_mebibyte(void **state) {
    assert_int_equal(PARSE("--history-bytes", "0"), OPTIONS_RUN);
    assert_int_equal(PARSE("--history-bytes", "1048576"), OPTIONS_RUN);
    assert_int_equal(options.history_bytes, 1048576);
    assert_int_equal(PARSE("--history-bytes", "1048575"), OPTIONS_INVALID);
    assert_error_says("at least 1048576");
}

static size_t index_of_etcd(void) {
    for (size_t i = 0; i < all_doors.n_doors; i++) {
        if (strcmp(all_doors.doors[i]->name, "etcd") == 0) {
            return i;
        }
    }
    fail_msg("there is no door \"etcd\"");
    return 0;
}

static void the_etcd_api_is_served_unless_others_are_chosen(void **state) {
    assert_int_equal(PARSE(), OPTIONS_RUN);
    assert_true(options.door_settings[index_of_etcd()].is_chosen);
    assert_int_equal(options.door_settings[index_of_etcd()].listen.n, 0);
    assert_int_equal(PARSE("--doors", "etcd"), OPTIONS_RUN);
    assert_true(options.door_settings[index_of_etcd()].is_chosen);
    assert_int_equal(PARSE("--doors", "etcd,gopher"), OPTIONS_INVALID);
    assert_error_says("no protocol \"gopher\"");
    assert_int_equal(PARSE("--doors="), OPTIONS_INVALID);
    assert_error_says("--doors");
}

/* Nothing would tell a DNS query from other protocols on the client URLs. */
static void dns_needs_a_listener_of_its_own(void **state) {
    assert_int_equal(PARSE("--doors", "etcd,dns"), OPTIONS_INVALID);
    assert_error_says("give --listen-dns HOST:PORT");
    assert_int_equal(PARSE("--doors", "etcd,dns", "--listen-dns", "127.0.0.1:8600"), OPTIONS_RUN);
    assert_int_equal(PARSE("--listen-dns", "127.0.0.1:8600"), OPTIONS_RUN);
}

static void a_door_may_have_listeners_of_its_own(void **state) {
    assert_int_equal(PARSE("--listen-etcd", "127.0.0.1:2479,[::1]:2479"), OPTIONS_RUN);
    const struct url_list *list = &options.door_settings[index_of_etcd()].listen;
    assert_int_equal(list->n, 2);
    assert_string_equal(list->urls[1].host, "::1");
    assert_int_equal(list->urls[1].port, 2479);
    assert_int_equal(list->urls[0].scheme, URL_HTTP);
    assert_int_equal(PARSE("--listen-etcd", "unix:///run/etcd.sock"), OPTIONS_RUN);
    assert_string_equal(list->urls[0].path, "/run/etcd.sock");
    assert_int_equal(PARSE("--listen-etcd", "tls://127.0.0.1:2479"), OPTIONS_INVALID);
    assert_error_says("TLS needs a certificate");
    assert_int_equal(PARSE("--listen-etcd", "tls://10.0.0.1:2479", "--auto-tls"), OPTIONS_RUN);
    assert_int_equal(list->urls[0].scheme, URL_HTTPS);
    assert_int_equal(PARSE("--listen-etcd", "http://127.0.0.1:2479"), OPTIONS_INVALID);
    assert_error_says("looks like");
    assert_int_equal(PARSE("--listen-etcd", "127.0.0.1"), OPTIONS_INVALID);
    assert_error_says("port is missing");
}

static void a_listener_of_a_door_that_others_reach_must_be_allowed(void **state) {
    assert_int_equal(PARSE("--listen-etcd", "10.0.0.1:2479"), OPTIONS_INVALID);
    assert_error_says("--listen-etcd 10.0.0.1:2479");
    assert_error_says("--allow-insecure");
    assert_int_equal(PARSE("--listen-etcd", "10.0.0.1:2479", "--allow-insecure"), OPTIONS_RUN);
}

static void flags_of_doors_are_flags_like_others(void **state) {
    size_t etcd = index_of_etcd();
    assert_int_equal(PARSE(), OPTIONS_RUN);
    assert_int_equal(options.door_settings[etcd].values[0].duration_ms, 10 * 60 * 1000);
    assert_int_equal(PARSE("--experimental-watch-progress-notify-interval", "3s"), OPTIONS_RUN);
    assert_int_equal(options.door_settings[etcd].values[0].duration_ms, 3000);
    char *environment[] = {"ETCD_EXPERIMENTAL_WATCH_PROGRESS_NOTIFY_INTERVAL=4s", NULL};
    assert_int_equal(PARSE_IN(environment), OPTIONS_RUN);
    assert_int_equal(options.door_settings[etcd].values[0].duration_ms, 4000);
}

static void variables_are_named_after_the_flag(void **state) {
    char name[OPTION_VARIABLE_SIZE];
    struct arena arena;
    arena_init(&arena);
    const struct option_set *set = option_set_create(&all_doors, &arena);
    option_variable(option_set_find(set, "listen-client-urls", 18), "ETCD_", name);
    arena_clear(&arena);
    assert_string_equal(name, "ETCD_LISTEN_CLIENT_URLS");
}

static void every_option_is_described_once(void **state) {
    struct arena arena;
    arena_init(&arena);
    const struct option_set *set = option_set_create(&all_doors, &arena);
    for (size_t i = 0; i < set->n; i++) {
        const struct option *option = &set->options[i];
        assert_ptr_equal(option_set_find(set, option->name, strlen(option->name)), option);
        assert_non_null(option->fallback);
        assert_int_equal(option->effect == OPTION_USED, option->help != NULL);
        assert_int_equal(option->effect == OPTION_REFUSED, option->reason != NULL);
        assert_int_equal(option->kind == OPTION_WORD, option->choices != NULL);
    }
    arena_clear(&arena);
}

static void help_names_every_flag_within_its_columns(void **state) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    options_print_help(&all_doors, stream);
    fclose(stream);
    struct arena arena;
    arena_init(&arena);
    const struct option_set *set = option_set_create(&all_doors, &arena);
    for (size_t i = 0; i < set->n; i++) {
        char flag[OPTION_VARIABLE_SIZE + 2];
        snprintf(flag, sizeof flag, "--%s", set->options[i].name);
        assert_non_null(strstr(text, flag));
    }
    arena_clear(&arena);
    for (char *line = text; *line != '\0'; line += strcspn(line, "\n") + 1) {
        assert_in_range(strcspn(line, "\n"), 0, 100);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_flags_one_node_is_served_on_loopback),
        cmocka_unit_test(a_value_follows_or_is_joined_by_an_equals_sign),
        cmocka_unit_test(the_last_of_two_equal_flags_wins),
        cmocka_unit_test(the_data_dir_is_named_after_the_member),
        cmocka_unit_test(a_switch_needs_no_value_and_takes_one_only_after_an_equals_sign),
        cmocka_unit_test(flags_win_over_our_variables_and_these_over_those_of_etcd),
        cmocka_unit_test(an_empty_variable_counts_as_not_set),
        cmocka_unit_test(a_wrong_value_is_blamed_on_where_it_came_from),
        cmocka_unit_test(an_unknown_variable_is_noticed_but_does_no_harm),
        cmocka_unit_test(an_unknown_flag_is_refused_with_the_nearest_name),
        cmocka_unit_test(an_endless_flag_name_is_refused),
        cmocka_unit_test(a_flag_at_the_end_misses_its_value),
        cmocka_unit_test(help_and_version_win_over_what_follows),
        cmocka_unit_test(numbers_are_held_to_their_bounds),
        cmocka_unit_test(words_are_held_to_their_choices),
        cmocka_unit_test(tls_for_clients_needs_a_certificate_and_its_key),
        cmocka_unit_test(certificate_without_a_tls_listener_is_noticed),
        cmocka_unit_test(under_the_name_of_etcd_it_has_etcds_defaults),
        cmocka_unit_test(demands_on_client_certificates_need_an_authority),
        cmocka_unit_test(a_certificate_of_a_members_own_needs_a_secret_beside_it),
        cmocka_unit_test(flags_between_members_that_cannot_be_kept_are_refused),
        cmocka_unit_test(tls_between_members_is_all_or_nothing),
        cmocka_unit_test(all_peer_urls_are_alike),
        cmocka_unit_test(a_refused_flag_may_repeat_its_default),
        cmocka_unit_test(forcing_a_new_cluster_must_be_asked_for),
        cmocka_unit_test(harmless_flags_of_etcd_are_accepted_and_noticed),
        cmocka_unit_test(a_listener_that_others_reach_must_be_allowed),
        cmocka_unit_test(a_wildcard_is_not_advertised),
        cmocka_unit_test(the_initial_cluster_names_this_member_and_others),
        cmocka_unit_test(names_that_would_break_files_or_lists_are_refused),
        cmocka_unit_test(an_election_lasts_at_least_five_heartbeats),
        cmocka_unit_test(compaction_counts_hours_durations_or_revisions),
        cmocka_unit_test(history_has_at_least_a_mebibyte),
        cmocka_unit_test(the_etcd_api_is_served_unless_others_are_chosen),
        cmocka_unit_test(dns_needs_a_listener_of_its_own),
        cmocka_unit_test(a_door_may_have_listeners_of_its_own),
        cmocka_unit_test(a_listener_of_a_door_that_others_reach_must_be_allowed),
        cmocka_unit_test(flags_of_doors_are_flags_like_others),
        cmocka_unit_test(variables_are_named_after_the_flag),
        cmocka_unit_test(every_option_is_described_once),
        cmocka_unit_test(help_names_every_flag_within_its_columns),
    };
    return cmocka_run_group_tests(tests, NULL, tear_down);
}
