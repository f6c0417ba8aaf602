/*
 * How the server was asked to run: etcd's own flags and environment names, and a few of our own.
 * Flags win over LEASED_… variables, these over ETCD_… ones, and all over the defaults. Where there
 * is a configuration file (config_file.h), it alone counts. Nothing
 * here has an effect by itself; what cannot be done as asked is refused with a reason.
 */
#ifndef LEASED_SERVER_OPTIONS_H
#define LEASED_SERVER_OPTIONS_H

#include "base/arena.h"
#include "base/log.h"
#include "doors/door.h"
#include "server/url.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { OPTIONS_NAME_SIZE_MAX = 128, OPTIONS_NOTICES_MAX = 64, OPTIONS_ERROR_SIZE = 1024 };
enum { OPTIONS_PEER_LISTENERS_MAX = 4 };
/* Tokens end in steps of a 24th of their time, which are counted in seconds. */
enum { OPTIONS_TOKEN_TTL_S_MIN = 24 };

/* Something the operator should know once logging is set up. */
struct options_notice {
    enum log_level level;
    const char *text;
};

/* What option_table.c describes, in its order. Texts are in the arena. A URL list that was left
 * out is empty until options_check() fills it in. */
/* More than this many voters only make every write wait for more disks. */
enum { OPTIONS_MEMBERS_MAX = 9 };

/* Whoever leaves the flag out claims nothing with it. */
#define OPTIONS_CLUSTER_TOKEN_DEFAULT "etcd-cluster"
/* A node that is alone does not open this one: several of them share a machine. */
#define OPTIONS_PEER_URL_DEFAULT "http://127.0.0.1:2380"
/* By time. Kept by revisions, history has no bound unless one is given. */
#define OPTIONS_RETENTION_DEFAULT "1h"

struct options_member {
    const char *name;
    struct url_list peer_urls;
};

/* What was said of one door. */
struct options_door {
    bool is_chosen; /* by --doors: served on the client URLs; worked out by options_check() */
    struct url_list listen;
    union door_value values[DOOR_FLAGS_MAX]; /* of its flags, in their order */
};

struct options {
    const char *name;
    const char *data_dir;
    struct url_list listen_client_urls;
    struct url_list advertise_client_urls;
    struct url_list listen_metrics_urls;
    struct url_list listen_client_http_urls;
    const char *config_file;
    bool allow_insecure;

    const struct door_list *doors; /* all that there are, borrowed */
    const char *doors_text;
    struct options_door door_settings[DOORS_MAX]; /* in their order */

    const char *cert_file;
    const char *key_file;
    const char *trusted_ca_file;
    bool client_cert_auth;
    const char *client_cert_allowed_cn;
    const char *client_cert_allowed_hostname;
    const char *client_crl_file;
    bool auto_tls;
    const char *auth_token;
    uint64_t auth_token_ttl_s;
    const char *cipher_suites;
    const char *tls_min_version;
    const char *tls_max_version;

    struct url_list listen_peer_urls;
    struct url_list initial_advertise_peer_urls;
    const char *initial_cluster;
    const char *initial_cluster_state;
    const char *initial_cluster_token;
    bool force_new_cluster;
    uint64_t heartbeat_interval_ms;
    uint64_t election_timeout_ms;

    const char *peer_secret_file;
    const char *peer_cert_file;
    const char *peer_key_file;
    const char *peer_trusted_ca_file;
    const char *peer_crl_file;
    bool peer_auto_tls;
    const char *peer_client_cert_file;
    const char *peer_client_key_file;
    bool peer_client_cert_auth;
    const char *peer_cert_allowed_cn;
    const char *peer_cert_allowed_hostname;

    uint64_t quota_backend_bytes;
    const char *auto_compaction_mode;
    const char *auto_compaction_retention;
    uint64_t history_bytes; /* 0: the default */
    uint64_t snapshot_log_bytes;
    uint64_t max_request_bytes;
    uint64_t max_txn_ops;
    uint64_t max_concurrent_streams;
    uint64_t max_connections;
    uint64_t max_connections_per_address; /* 0: descriptors_client_share() */
    int64_t grpc_keepalive_interval_ms;   /* -1: not said */
    int64_t grpc_keepalive_timeout_ms;    /* -1: not said */

    const char *log_level_name;
    const char *log_format_name;
    const char *logger;
    const char *log_outputs;
    bool debug;

    /* Worked out by options_check(). */
    enum log_level log_level;
    enum log_format log_format;
    bool is_peer_port_asked_for; /* --listen-peer-urls is not the default */
    const char *peer_address;    /* under which peers reach this member: peers/peer_address.h */
    bool has_peer_tls;
    bool has_client_tls; /* a certificate for listeners that speak TLS */
    /* From --initial-cluster, in its order; none: this member alone. */
    size_t n_members;
    struct options_member members[OPTIONS_MEMBERS_MAX];
    /* It has other URLs for this member than are advertised: an error at the first start; a member
     * that has moved since may leave it as it was. */
    bool is_named_otherwise;
    bool strict_reads;
    bool is_compacting_by_revision;
    bool keeps_all_history;                /* until somebody compacts it, as in etcd */
    uint64_t auto_compaction_revisions;    /* 0: off */
    uint64_t auto_compaction_retention_ms; /* 0: off */

    size_t n_notices;
    struct options_notice notices[OPTIONS_NOTICES_MAX];
    struct arena arena;
};

enum options_result {
    OPTIONS_RUN,
    OPTIONS_HELP,          /* --help was given */
    OPTIONS_VERSION,       /* --version was given */
    OPTIONS_LIST_REQUESTS, /* --list-requests was given */
    OPTIONS_INVALID        /* out_error says what and what to do instead */
};

/* Reads and checks everything. `environment` ends with NULL. The options must be cleared whatever
 * the result. */
enum options_result options_parse(struct options *options, const struct door_list *doors, int argc,
                                  char *const *argv, char *const *environment,
                                  char out_error[OPTIONS_ERROR_SIZE]);
void options_clear(struct options *options);

/* The second half of options_parse(): what does not follow from one option alone, such as which
 * listeners are allowed together. STATUS_INVALID. */
enum status options_check(struct options *options, char out_error[OPTIONS_ERROR_SIZE]);

/* Remembers something for the log; beyond OPTIONS_NOTICES_MAX it is dropped. */
__attribute__((format(printf, 3, 4))) void
options_notice(struct options *options, enum log_level level, const char *format, ...);

/* What --help prints. */
void options_print_help(const struct door_list *doors, FILE *stream);

#endif
