#include "server/option_table.h"

#include "core/command.h"
#include "server/options.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define AT(field) offsetof(struct options, field)

static const char no_discovery[] = "discovery is not supported; name the members in "
                                   "--initial-cluster";

#define USED(option_name, option_group, option_kind, field, default_text, help_text)               \
    .name = (option_name), .group = (option_group), .kind = (option_kind), .effect = OPTION_USED,  \
    .offset = AT(field), .fallback = (default_text), .help = (help_text)
#define REFUSED_TLS(option_name, option_kind, why)                                                 \
    {                                                                                              \
        .name = (option_name), .group = OPTION_GROUP_OTHER, .kind = (option_kind),                 \
        .effect = OPTION_REFUSED, .fallback = "", .reason = (why)                                  \
    }
#define REFUSED(option_name, option_kind, default_text, why)                                       \
    {                                                                                              \
        .name = (option_name), .group = OPTION_GROUP_OTHER, .kind = (option_kind),                 \
        .effect = OPTION_REFUSED, .fallback = (default_text), .reason = (why)                      \
    }
#define NO_EFFECT(option_name, option_kind)                                                        \
    {                                                                                              \
        .name = (option_name), .group = OPTION_GROUP_OTHER, .kind = (option_kind),                 \
        .effect = OPTION_NO_EFFECT, .fallback = ""                                                 \
    }

const struct option option_table[] = {
    {USED("name", OPTION_GROUP_SERVING, OPTION_TEXT, name, "default", "The member's name.")},
    {USED("data-dir", OPTION_GROUP_SERVING, OPTION_TEXT, data_dir, "",
          "The data directory. Created when missing; used by one process at a time."),
     .shown = "${name}.leased"},
    {USED("listen-client-urls", OPTION_GROUP_SERVING, OPTION_URLS, listen_client_urls,
          "http://127.0.0.1:2379", "URLs that serve clients; several with commas between them.")},
    {USED("advertise-client-urls", OPTION_GROUP_SERVING, OPTION_URLS, advertise_client_urls, "",
          "The client URLs that the member list shows."),
     .shown = "as listened on"},
    {USED("listen-metrics-urls", OPTION_GROUP_SERVING, OPTION_URLS, listen_metrics_urls, "",
          "Further URLs for /metrics, /health and /version alone."),
     .shown = "none"},
    {USED("listen-client-http-urls", OPTION_GROUP_SERVING, OPTION_URLS, listen_client_http_urls, "",
          "Further URLs for clients, meant for HTTP; they serve the same as --listen-client-urls."),
     .shown = "none"},
    {USED("config-file", OPTION_GROUP_SERVING, OPTION_TEXT, config_file, "",
          "A YAML file with flags by their names, as etcd's. Other flags and variables are ignored "
          "then."),
     .shown = "none"},
    {USED("allow-insecure", OPTION_GROUP_SERVING, OPTION_SWITCH, allow_insecure, "false",
          "Allow listeners that other machines reach, without TLS and authentication.")},

    {USED(
         "cert-file", OPTION_GROUP_TLS, OPTION_TEXT, cert_file, "",
         "The server's certificate towards clients, PEM, with the chain; for https:// and unixs:// "
         "listeners. Read again when it changes."),
     .shown = "none"},
    {USED("key-file", OPTION_GROUP_TLS, OPTION_TEXT, key_file, "",
          "Its key, PEM, without a passphrase."),
     .shown = "none"},
    {USED("trusted-ca-file", OPTION_GROUP_TLS, OPTION_TEXT, trusted_ca_file, "",
          "The authority that signs the clients' certificates, PEM. With it clients must show one, "
          "as in etcd."),
     .shown = "none"},
    {USED("client-cert-auth", OPTION_GROUP_TLS, OPTION_SWITCH, client_cert_auth, "false",
          "Clients must show a certificate of --trusted-ca-file.")},
    {USED("client-cert-allowed-cn", OPTION_GROUP_TLS, OPTION_TEXT, client_cert_allowed_cn, "",
          "The common names that a client's certificate may bear, with commas. Not in etcd 3.5."),
     .shown = "any"},
    {USED("client-cert-allowed-hostname", OPTION_GROUP_TLS, OPTION_TEXT,
          client_cert_allowed_hostname, "",
          "The DNS names of which a client's certificate must bear one, with commas."),
     .shown = "any"},
    {USED("client-crl-file", OPTION_GROUP_TLS, OPTION_TEXT, client_crl_file, "",
          "Revoked client certificates, PEM or DER. Read again when it changes."),
     .shown = "none"},
    {USED("auto-tls", OPTION_GROUP_TLS, OPTION_SWITCH, auto_tls, "false",
          "Without --cert-file: a certificate of its own, kept in the data directory. Clients "
          "cannot verify it unless they are given the file.")},
    {USED("auth-token", OPTION_GROUP_TLS, OPTION_TEXT, auth_token, "simple",
          "Tokens of users who logged in: simple, signed with a key that the members share, or "
          "jwt,sign-method=RS256,pub-key=FILE,priv-key=FILE,ttl=10m.")},
    {USED("auth-token-ttl", OPTION_GROUP_TLS, OPTION_NUMBER, auth_token_ttl_s, "0",
          "Seconds from the login until a simple token ends, 24 at least; 0: a day. The leader's "
          "flag counts."),
     .max = 365 * 24 * 3600},
    {USED("cipher-suites", OPTION_GROUP_TLS, OPTION_TEXT, cipher_suites, "",
          "Cipher suites allowed with clients and between members, with commas, by etcd's names: "
          "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256."),
     .shown = "all that are safe"},
    {USED("tls-min-version", OPTION_GROUP_TLS, OPTION_WORD, tls_min_version, "TLS1.2",
          "The oldest TLS version allowed."),
     .choices = "TLS1.2|TLS1.3"},
    {USED("tls-max-version", OPTION_GROUP_TLS, OPTION_WORD, tls_max_version, "",
          "The newest TLS version allowed."),
     .shown = "the newest there is", .choices = "TLS1.2|TLS1.3|"},

    {USED("listen-peer-urls", OPTION_GROUP_MEMBER, OPTION_URLS, listen_peer_urls,
          OPTIONS_PEER_URL_DEFAULT,
          "URLs on which other members reach this one; up to four with commas between them. A "
          "single node does not open the default.")},
    {USED("initial-advertise-peer-urls", OPTION_GROUP_MEMBER, OPTION_URLS,
          initial_advertise_peer_urls, "", "The peer URL that other members connect to."),
     .shown = "as listened on"},
    {USED("initial-cluster", OPTION_GROUP_MEMBER, OPTION_TEXT, initial_cluster, "",
          "The members at the first start, name=URL,name=URL; this one included."),
     .shown = "this member alone"},
    {USED("initial-cluster-state", OPTION_GROUP_MEMBER, OPTION_WORD, initial_cluster_state, "new",
          "Whether a first start makes a new cluster or joins an existing one."),
     .choices = "new|existing"},
    {USED("initial-cluster-token", OPTION_GROUP_MEMBER, OPTION_TEXT, initial_cluster_token,
          OPTIONS_CLUSTER_TOKEN_DEFAULT, "Keeps clusters apart: their ids are made from it.")},
    {USED("force-new-cluster", OPTION_GROUP_MEMBER, OPTION_SWITCH, force_new_cluster, "false",
          "Make a cluster of this member alone from its data, when a majority of the members is "
          "lost for good. For one start; see docs/operations.md first.")},
    {USED("strict-reads", OPTION_GROUP_MEMBER, OPTION_SWITCH, strict_reads, "false",
          "Linearizable reads always ask a majority, instead of trusting the leader's lease.")},
    {USED("heartbeat-interval", OPTION_GROUP_MEMBER, OPTION_NUMBER, heartbeat_interval_ms, "50",
          "Milliseconds between a leader's heartbeats."),
     .min = 1, .max = 60000},
    {USED("election-timeout", OPTION_GROUP_MEMBER, OPTION_NUMBER, election_timeout_ms, "300",
          "Milliseconds without a heartbeat until an election; at least 5 heartbeats."),
     .min = 10, .max = 50000},

    {USED("quota-backend-bytes", OPTION_GROUP_STORAGE, OPTION_NUMBER, quota_backend_bytes, "0",
          "Bytes of keys and values (all versions) above which writes are refused and the NOSPACE "
          "alarm is raised; 0: 2 GiB."),
     .max = INT64_MAX},
    {USED("auto-compaction-mode", OPTION_GROUP_STORAGE, OPTION_WORD, auto_compaction_mode,
          "periodic", "How --auto-compaction-retention counts: by time or by revisions."),
     .choices = "periodic|revision"},
    {USED("auto-compaction-retention", OPTION_GROUP_STORAGE, OPTION_TEXT, auto_compaction_retention,
          OPTIONS_RETENTION_DEFAULT,
          "History to keep: hours (\"1\"), a duration (\"5m\") or a number of revisions, and less "
          "when it takes --history-bytes; 0: all, as etcd's default.")},
    {USED("history-bytes", OPTION_GROUP_STORAGE, OPTION_NUMBER, history_bytes, "0",
          "Memory that history may take before its older half is compacted; 0: 128 MiB, or a "
          "sixteenth of the quota where that is more; at most half of the quota. Not in etcd."),
     .max = INT64_MAX},
    {USED("snapshot-log-bytes", OPTION_GROUP_STORAGE, OPTION_NUMBER, snapshot_log_bytes, "0",
          "Bytes of log after which a snapshot is taken; 0: the built-in bound. Not in etcd."),
     .max = INT64_C(1) << 40},

    {USED("max-request-bytes", OPTION_GROUP_LIMITS, OPTION_NUMBER, max_request_bytes, "1572864",
          "Largest request of a client, up to 16777216 (16 MiB)."),
     .min = 1, .max = COMMAND_SIZE_MAX},
    {USED("max-txn-ops", OPTION_GROUP_LIMITS, OPTION_NUMBER, max_txn_ops, "128",
          "Most operations in a transaction. 128 is allowed whatever is said here; more is "
          "refused."),
     .min = 1, .max = COMMAND_TXN_OPERATIONS_MAX},
    {USED("max-concurrent-streams", OPTION_GROUP_LIMITS, OPTION_NUMBER, max_concurrent_streams, "0",
          "Calls that one connection may have open, and all clients of the JSON gateway together: "
          "further ones wait; 0: the built-in bound for a connection."),
     .max = UINT32_MAX},
    {USED("max-connections", OPTION_GROUP_LIMITS, OPTION_NUMBER, max_connections, "0",
          "Connections of clients; further ones are refused with a message. At most what the limit "
          "of "
          "open files leaves; 0: that, up to 65536. Not in etcd."),
     .max = 1000000},
    {USED("max-connections-per-address", OPTION_GROUP_LIMITS, OPTION_NUMBER,
          max_connections_per_address, "0",
          "Connections of clients with one address (an IPv6 network of 64 bits, a user of a Unix "
          "socket); further ones are refused with a message. 0: three quarters of "
          "--max-connections, and at "
          "least 1024. Not in etcd."),
     .max = 1000000},
    {USED("grpc-keepalive-interval", OPTION_GROUP_LIMITS, OPTION_DURATION,
          grpc_keepalive_interval_ms, "", "Silence after which a connection is pinged; 0: never."),
     .shown = "built in"},
    {USED("grpc-keepalive-timeout", OPTION_GROUP_LIMITS, OPTION_DURATION, grpc_keepalive_timeout_ms,
          "", "How long a ping may stay unanswered."),
     .shown = "built in"},

    {USED(
         "peer-secret-file", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_secret_file, "",
         "A file with a secret that all members share, of 16 bytes at least, readable by its owner "
         "alone. Members prove to each other that they know it; it does not encrypt."),
     .shown = "none"},
    {USED("peer-cert-file", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_cert_file, "",
          "This member's certificate towards the others, PEM, with the chain. Peer URLs are "
          "https:// then. Read again when it changes."),
     .shown = "none"},
    {USED("peer-key-file", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_key_file, "",
          "Its key, PEM, without a passphrase."),
     .shown = "none"},
    {USED("peer-trusted-ca-file", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_trusted_ca_file, "",
          "The authority that signs the certificates of all members, PEM."),
     .shown = "the system's"},
    {USED("peer-crl-file", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_crl_file, "",
          "Revoked certificates of members, PEM or DER. Read again when it changes."),
     .shown = "none"},
    {USED("peer-auto-tls", OPTION_GROUP_PEER_TLS, OPTION_SWITCH, peer_auto_tls, "false",
          "Without --peer-cert-file: a certificate of this member's own, kept in the data "
          "directory. It encrypts and proves nothing; give --peer-secret-file with it.")},
    {USED("peer-client-cert-file", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_client_cert_file, "",
          "The certificate of connections to other members: the same as --peer-cert-file."),
     .shown = "--peer-cert-file"},
    {USED("peer-client-key-file", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_client_key_file, "",
          "Its key: the same as --peer-key-file."),
     .shown = "--peer-key-file"},
    {USED("peer-client-cert-auth", OPTION_GROUP_PEER_TLS, OPTION_SWITCH, peer_client_cert_auth,
          "false", "Members that connect must show a certificate. With TLS they always must.")},
    {USED("peer-cert-allowed-cn", OPTION_GROUP_PEER_TLS, OPTION_TEXT, peer_cert_allowed_cn, "",
          "The common names that a member's certificate may bear, with commas."),
     .shown = "any"},
    {USED("peer-cert-allowed-hostname", OPTION_GROUP_PEER_TLS, OPTION_TEXT,
          peer_cert_allowed_hostname, "",
          "The DNS names of which a member's certificate must bear one, with commas."),
     .shown = "any"},

    {USED("log-level", OPTION_GROUP_LOGGING, OPTION_WORD, log_level_name, "info",
          "The least important lines to log."),
     .choices = "debug|info|warn|error|dpanic|panic|fatal"},
    {USED("log-format", OPTION_GROUP_LOGGING, OPTION_WORD, log_format_name, "",
          "Lines for people or for machines. Not in etcd."),
     .shown = "text; json with --logger=zap", .choices = "text|console|json|"},
    {USED("logger", OPTION_GROUP_LOGGING, OPTION_WORD, logger, "",
          "zap: the same as --log-format=json, the lines that etcd logs."),
     .shown = "none", .choices = "zap|capnslog|"},
    {USED("log-outputs", OPTION_GROUP_LOGGING, OPTION_TEXT, log_outputs, "default",
          "stderr (also \"default\"), stdout, or a file to append to.")},
    {USED("debug", OPTION_GROUP_LOGGING, OPTION_SWITCH, debug, "false",
          "The same as --log-level=debug.")},

    REFUSED_TLS("ca-file", OPTION_TEXT, "the name is --trusted-ca-file"),
    REFUSED_TLS("peer-ca-file", OPTION_TEXT, "the name is --peer-trusted-ca-file"),

    REFUSED("wal-dir", OPTION_TEXT, "", "the log is kept in --data-dir; it cannot be elsewhere"),
    REFUSED("discovery", OPTION_TEXT, "", no_discovery),
    REFUSED("discovery-srv", OPTION_TEXT, "", no_discovery),
    REFUSED("discovery-srv-name", OPTION_TEXT, "", no_discovery),
    REFUSED("discovery-proxy", OPTION_TEXT, "", no_discovery),
    REFUSED("proxy", OPTION_TEXT, "off", "proxy modes of etcd's v2 are not supported"),
    REFUSED("experimental-enable-v2v3", OPTION_TEXT, "", "etcd's v2 API is not supported"),

    NO_EFFECT("backend-bbolt-freelist-type", OPTION_TEXT),
    NO_EFFECT("backend-batch-interval", OPTION_TEXT),
    NO_EFFECT("backend-batch-limit", OPTION_TEXT),
    NO_EFFECT("bcrypt-cost", OPTION_TEXT),
    NO_EFFECT("client-cert-file", OPTION_TEXT),
    NO_EFFECT("client-key-file", OPTION_TEXT),
    NO_EFFECT("discovery-fallback", OPTION_TEXT),
    NO_EFFECT("enable-log-rotation", OPTION_SWITCH),
    NO_EFFECT("enable-pprof", OPTION_SWITCH),
    NO_EFFECT("enable-v2", OPTION_SWITCH),
    NO_EFFECT("experimental-backend-bbolt-freelist-type", OPTION_TEXT),
    NO_EFFECT("experimental-bootstrap-defrag-threshold-megabytes", OPTION_TEXT),
    NO_EFFECT("experimental-compact-hash-check-enabled", OPTION_SWITCH),
    NO_EFFECT("experimental-compact-hash-check-time", OPTION_TEXT),
    NO_EFFECT("experimental-compaction-batch-limit", OPTION_TEXT),
    NO_EFFECT("experimental-compaction-sleep-interval", OPTION_TEXT),
    NO_EFFECT("experimental-corrupt-check-time", OPTION_TEXT),
    NO_EFFECT("experimental-downgrade-check-time", OPTION_TEXT),
    NO_EFFECT("experimental-distributed-tracing-address", OPTION_TEXT),
    NO_EFFECT("experimental-distributed-tracing-instance-id", OPTION_TEXT),
    NO_EFFECT("experimental-distributed-tracing-sampling-rate", OPTION_TEXT),
    NO_EFFECT("experimental-distributed-tracing-service-name", OPTION_TEXT),
    NO_EFFECT("experimental-enable-distributed-tracing", OPTION_SWITCH),
    NO_EFFECT("experimental-enable-lease-checkpoint", OPTION_SWITCH),
    NO_EFFECT("experimental-enable-lease-checkpoint-persist", OPTION_SWITCH),
    NO_EFFECT("experimental-initial-corrupt-check", OPTION_SWITCH),
    NO_EFFECT("experimental-max-learners", OPTION_TEXT),
    NO_EFFECT("experimental-memory-mlock", OPTION_SWITCH),
    NO_EFFECT("experimental-peer-skip-client-san-verification", OPTION_SWITCH),
    NO_EFFECT("experimental-snapshot-catchup-entries", OPTION_TEXT),
    NO_EFFECT("experimental-stop-grpc-service-on-defrag", OPTION_SWITCH),
    NO_EFFECT("experimental-txn-mode-write-with-shared-buffer", OPTION_SWITCH),
    NO_EFFECT("experimental-warning-apply-duration", OPTION_TEXT),
    NO_EFFECT("experimental-warning-unary-request-duration", OPTION_TEXT),
    NO_EFFECT("feature-gates", OPTION_TEXT),
    NO_EFFECT("grpc-keepalive-min-time", OPTION_TEXT),
    NO_EFFECT("initial-election-tick-advance", OPTION_SWITCH),
    NO_EFFECT("log-package-levels", OPTION_TEXT),
    NO_EFFECT("log-rotation-config-json", OPTION_TEXT),
    NO_EFFECT("max-snapshots", OPTION_TEXT),
    NO_EFFECT("max-wals", OPTION_TEXT),
    NO_EFFECT("metrics", OPTION_TEXT),
    NO_EFFECT("pre-vote", OPTION_SWITCH),
    NO_EFFECT("proxy-dial-timeout", OPTION_TEXT),
    NO_EFFECT("proxy-failure-wait", OPTION_TEXT),
    NO_EFFECT("proxy-read-timeout", OPTION_TEXT),
    NO_EFFECT("proxy-refresh-interval", OPTION_TEXT),
    NO_EFFECT("proxy-write-timeout", OPTION_TEXT),
    NO_EFFECT("raft-read-timeout", OPTION_TEXT),
    NO_EFFECT("raft-write-timeout", OPTION_TEXT),
    NO_EFFECT("self-signed-cert-validity", OPTION_TEXT),
    NO_EFFECT("snapshot-count", OPTION_TEXT),
    NO_EFFECT("socket-reuse-address", OPTION_SWITCH),
    NO_EFFECT("socket-reuse-port", OPTION_SWITCH),
    NO_EFFECT("strict-reconfig-check", OPTION_SWITCH),
    NO_EFFECT("unsafe-no-fsync", OPTION_SWITCH),
    NO_EFFECT("v2-deprecation", OPTION_TEXT),
};
const size_t option_table_size = sizeof option_table / sizeof option_table[0];

const char *option_group_title(enum option_group group) {
    static const char *const titles[OPTION_GROUP_COUNT] = {
        [OPTION_GROUP_SERVING] = "Serving",
        [OPTION_GROUP_DOORS] = "Protocols",
        [OPTION_GROUP_MEMBER] = "Member and cluster",
        [OPTION_GROUP_STORAGE] = "Storage",
        [OPTION_GROUP_PEER_TLS] = "TLS between members",
        [OPTION_GROUP_LIMITS] = "Limits",
        [OPTION_GROUP_LOGGING] = "Logging",
        [OPTION_GROUP_TLS] = "TLS and tokens for clients",
        [OPTION_GROUP_OTHER] = "Other flags of etcd's",
    };
    assert(group < OPTION_GROUP_COUNT);
    return titles[group];
}

void option_variable(const struct option *option, const char *prefix,
                     char out_name[OPTION_VARIABLE_SIZE]) {
    int size = snprintf(out_name, OPTION_VARIABLE_SIZE, "%s%s", prefix, option->name);
    assert(size < OPTION_VARIABLE_SIZE);
    for (int i = 0; i < size; i++) {
        out_name[i] = out_name[i] == '-' ? '_' : (char)toupper((unsigned char)out_name[i]);
    }
}
