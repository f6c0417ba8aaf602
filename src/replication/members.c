/* Who belongs to the cluster as this node knows it: links to keep, callers to admit, the voters
 * whose word counts. The replicated table is the truth; before it is known, raft's configuration
 * and what the node was started with stand in. */
#include "base/clock.h"
#include "base/log.h"
#include "core/auth.h"
#include "peers/peer_address.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    /* Between two attempts to tell the others who we are. */
    PUBLISH_RETRY_MS = 1000,
    REPLACED_SIZE = 1024,
    /* So long nobody who leads has welcomed one that is told it was removed. */
    REMOVED_PATIENCE_MS = 1000
};

/* Those of the table, of raft's configuration and of the flags, whoever leads, and a candidate. */
static_assert(MEMBERS_MAX + RAFT_CONFIG_SERVERS_MAX + MEMBERS_MAX + 2 <= LINKS_MAX,
              "there is a place for every link that is wanted");
static_assert((int)RAFT_CONFIG_SERVERS_MAX >= (int)MEMBERS_MAX &&
                  (int)RAFT_CONFIG_SERVERS_MAX <= (int)LEADER_LEASE_VOTERS_MAX,
              "every member can be a voter, and the leader counts every voter");

static const struct member_table *table_of(const struct service *service) {
    return state_machine_members(service->machine);
}

const struct raft_config_server *members_server(const struct service *service, uint64_t id) {
    return raft_config_find(raft_engine_configuration(service->engine), id);
}

static const struct replication_member *first_member(const struct service *service, uint64_t id) {
    for (size_t i = 0; i < service->options.n_members; i++) {
        if (service->options.members[i].id == id) {
            return &service->options.members[i];
        }
    }
    return NULL;
}

/* --- Addresses. --- */

static const struct seen_member *find_seen(const struct service *service, uint64_t id) {
    for (size_t i = 0; i < service->members.n_seen; i++) {
        if (service->members.seen[i].id == id) {
            return &service->members.seen[i];
        }
    }
    return NULL;
}

bool members_address(const struct service *service, uint64_t id,
                     char out_address[PEER_ADDRESS_SIZE_MAX + 1]) {
    const struct member *member = member_table_find(table_of(service), id);
    if (member != NULL && member->peer_urls[0] != NULL) {
        return peer_address_of_url(member->peer_urls[0], out_address);
    }
    const struct replication_member *first = first_member(service, id);
    const struct raft_config_server *server = members_server(service, id);
    const struct seen_member *seen = find_seen(service, id);
    const char *address = first != NULL    ? first->address
                          : server != NULL ? server->address
                          : seen != NULL   ? seen->address
                                           : NULL;
    return address != NULL && peer_address_of_url(address, out_address);
}

/* --- Links. --- */

/* Members have links. Were one of them noted, it would take the place of a candidate that has
 * none. */
void members_note_candidate(struct service *service, uint64_t id) {
    if (member_table_find(table_of(service), id) == NULL && members_server(service, id) == NULL) {
        service->members.candidate_id = id;
    }
}

/* Somebody asked for this node's vote, and nobody leads: it must hear the answer, although a node
 * that is behind may not know yet that it is a member. */
static bool is_candidate(const struct service *service, uint64_t id) {
    return id == service->members.candidate_id && raft_engine_leader_id(service->engine) == 0;
}

static bool is_wanted(const struct service *service, uint64_t id) {
    if (id == 0 || id == service->options.member_id) {
        return false;
    }
    /* A node that is behind applies what was, and may meet there members that did not know its
     * leader yet: it needs a link to that one all the same, to get on. */
    return member_table_find(table_of(service), id) != NULL ||
           members_server(service, id) != NULL || id == raft_engine_leader_id(service->engine) ||
           is_candidate(service, id) ||
           (member_table_count(table_of(service)) == 0 && first_member(service, id) != NULL);
}

static void link_to(struct service *service, uint64_t id) {
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    if (!is_wanted(service, id) || !members_address(service, id, address)) {
        return;
    }
    peers_set_member(service->peers, id, address);
    for (size_t i = 0; i < service->members.n_linked; i++) {
        if (service->members.linked[i] == id) {
            return;
        }
    }
    assert(service->members.n_linked < LINKS_MAX);
    service->members.linked[service->members.n_linked++] = id;
}

static void keep_links(struct service *service) {
    for (size_t i = 0; i < service->members.n_linked;) {
        uint64_t id = service->members.linked[i];
        if (is_wanted(service, id)) {
            i++;
            continue;
        }
        service->members.linked[i] = service->members.linked[--service->members.n_linked];
        peers_remove_member(service->peers, id);
    }
    for (size_t i = 0; i < member_table_count(table_of(service)); i++) {
        link_to(service, member_table_at(table_of(service), i)->facts.id);
    }
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    for (size_t i = 0; i < configuration->n; i++) {
        link_to(service, configuration->servers[i].id);
    }
    for (size_t i = 0; i < service->options.n_members; i++) {
        link_to(service, service->options.members[i].id);
    }
    link_to(service, raft_engine_leader_id(service->engine));
    link_to(service, service->members.candidate_id);
}

/* --- Callers. --- */

static void remember(struct service *service, const struct peer_hello *hello) {
    struct members *members = &service->members;
    size_t i = 0;
    while (i < members->n_seen && members->seen[i].id != hello->from_id) {
        i++;
    }
    /* Many may have come and gone: the place of one that is not needed any more will do. */
    for (size_t j = 0; i == LINKS_MAX && j < LINKS_MAX; j++) {
        i = is_wanted(service, members->seen[j].id) ? LINKS_MAX : j;
    }
    if (i == LINKS_MAX) {
        return;
    }
    members->n_seen += i == members->n_seen;
    members->seen[i].id = hello->from_id;
    snprintf(members->seen[i].address, sizeof members->seen[i].address, "%s", hello->address);
}

static bool is_disk_replaced(const struct service *service, uint64_t id, uint64_t data_dir_id);

static bool differs(const struct service *service, const struct service_timers *timers) {
    return timers->heartbeat_ms != service->options.heartbeat_ms ||
           timers->election_ms != service->options.election_ms;
}

/* Members may run with different timers; that is safe (safety rule 4), and told. */
static void note_timers(struct service *service, const struct peer_hello *hello) {
    struct cluster *cluster = &service->cluster;
    size_t i = 0;
    while (i < cluster->n_timers && cluster->timers[i].member_id != hello->from_id) {
        i++;
    }
    if (i == LINKS_MAX) {
        return;
    }
    bool is_new = i == cluster->n_timers ||
                  cluster->timers[i].heartbeat_ms != hello->heartbeat_ms ||
                  cluster->timers[i].election_ms != hello->election_ms;
    cluster->n_timers += i == cluster->n_timers;
    cluster->timers[i] =
        (struct service_timers){hello->from_id, hello->heartbeat_ms, hello->election_ms};
    if (is_new && differs(service, &cluster->timers[i])) {
        log_warning("a member runs with other timers than this one",
                    LOG_TEXT("address", hello->address),
                    LOG_NUMBER("heartbeat_ms", hello->heartbeat_ms),
                    LOG_NUMBER("election_ms", hello->election_ms));
    }
}

/* A leader that it knows is heard: nobody else has anything to tell that this node needs. */
static bool hears_known_leader(struct service *service) {
    uint64_t leader_id = raft_engine_leader_id(service->engine);
    return leader_id != 0 && members_server(service, leader_id) != NULL &&
           !cluster_is_leaderless(service);
}

enum peer_answer members_admit(void *data, const struct peer_hello *hello) {
    struct service *service = data;
    const struct member_table *table = table_of(service);
    uint64_t id = hello->from_id;
    bool is_known = member_table_find(table, id) != NULL || members_server(service, id) != NULL;
    if (cluster_is_alone(service)) {
        /* Not yet one of several: a member that is known may come again. */
        return is_known ? PEER_BUSY : PEER_NOT_A_MEMBER;
    }
    if (!is_known) {
        if (member_table_is_removed(table, id)) {
            return PEER_REMOVED;
        }
        /* A leader knows all members. Any other node may be behind, and must not keep out the one
         * who could tell it. After a restart that is all that came behind the first configuration,
         * until a leader tells how much of the log is committed. Where nobody proves anything, any
         * number of ids can be claimed: they are let in only while nobody who is known leads. */
        bool has_begun =
            member_table_count(table) > 0 || raft_engine_last_index(service->engine) > 1;
        bool is_needed = members_are_proven(service) || !hears_known_leader(service);
        bool may_be_new =
            !service->leadership.serving && is_needed &&
            (has_begun || service->options.is_joining || first_member(service, id) != NULL);
        if (!may_be_new) {
            return PEER_NOT_A_MEMBER;
        }
    }
    if (is_disk_replaced(service, id, hello->data_dir_id)) {
        return PEER_DISK_REPLACED;
    }
    remember(service, hello);
    note_timers(service, hello);
    return PEER_WELCOME;
}

static bool has_been_here(const struct service *service, uint64_t id) {
    return id == service->options.member_id || find_seen(service, id) != NULL;
}

void members_asked(void *data, uint64_t id, struct buffer *out_body) {
    struct service *service = data;
    const struct member_table *table = table_of(service);
    size_t n = member_table_count(table);
    struct member_facts members[MEMBERS_MAX];
    for (size_t i = 0; i < n; i++) {
        members[i] = member_table_at(table, i)->facts;
        /* It may not have said so yet, in as many words. */
        members[i].is_started |= has_been_here(service, members[i].id);
    }
    struct peer_frame answer = {.type = PEER_MEMBERS};
    answer.members.cluster_id = service->options.cluster_id;
    answer.members.token_hash = member_table_token_hash(table);
    answer.members.is_removed = member_table_is_removed(table, id);
    answer.members.n = n;
    answer.members.members = members;
    answer.members.cluster_version = state_machine_cluster_version(service->machine);
    peer_frame_encode(out_body, &answer);
}

/* --- The voters. --- */

/* Those of raft's newest configuration, committed or not, as raft itself counts (docs/decisions,
 * 0014). */
void members_count_voters(struct service *service) {
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    uint64_t others[LEADER_LEASE_VOTERS_MAX];
    size_t n = 0;
    bool self_votes = false;
    for (size_t i = 0; i < configuration->n; i++) {
        if (configuration->servers[i].role != CONFIG_VOTER) {
            continue;
        }
        if (configuration->servers[i].id == service->options.member_id) {
            self_votes = true;
            continue;
        }
        assert(n < LEADER_LEASE_VOTERS_MAX);
        others[n++] = configuration->servers[i].id;
    }
    leader_lease_set_voters(&service->leader_lease, self_votes, others, n);
}

/* --- The first members. --- */

static void add_client_urls(const struct service *service, struct member_facts *facts) {
    for (const char *const *url = service->options.client_urls;
         *url != NULL && facts->n_client_urls < MEMBER_URLS_MAX; url++) {
        facts->client_urls[facts->n_client_urls++] = bytes_from_text(*url);
    }
}

/* Written down by the first leader, from raft's own first configuration: no two nodes could differ
 * about it. */
bool members_begin(struct service *service, struct arena *arena, struct command *out_command) {
    const struct raft_config *configuration = raft_engine_configuration(service->engine);
    if (member_table_count(table_of(service)) > 0) {
        return false;
    }
    struct member_facts *members = arena_calloc(arena, configuration->n, sizeof *members);
    size_t n = 0;
    for (size_t i = 0; i < configuration->n && n < MEMBERS_MAX; i++) {
        const struct raft_config_server *server = &configuration->servers[i];
        const struct replication_member *first = first_member(service, server->id);
        bool is_self = server->id == service->options.member_id;
        struct member_facts *facts = &members[n++];
        facts->id = server->id;
        facts->name = bytes_from_text(is_self         ? service->options.name
                                      : first != NULL ? first->name
                                                      : "");
        if (is_self) {
            facts->is_started = true;
            facts->data_dir_id = service->options.data_dir_id;
            add_client_urls(service, facts);
        }
        const char *const *urls = first != NULL ? first->peer_urls
                                  : is_self     ? service->options.peer_urls
                                                : NULL;
        for (; urls != NULL && *urls != NULL && facts->n_peer_urls < MEMBER_URLS_MAX; urls++) {
            facts->peer_urls[facts->n_peer_urls++] = bytes_from_text(*urls);
        }
        if (facts->n_peer_urls == 0) {
            const char *scheme = peer_address_path(server->address) == NULL ? "http://" : "";
            size_t size = strlen(server->address) + sizeof "http://";
            char *url = arena_alloc(arena, size);
            snprintf(url, size, "%s%s", scheme, server->address);
            facts->peer_urls[facts->n_peer_urls++] = bytes_from_text(url);
        }
    }
    *out_command = (struct command){
        .type = COMMAND_MEMBERS_BEGIN,
        .members_begin = {.token_hash = service->options.token_hash, .n = n, .members = members}};
    return true;
}

/* --- Telling the others who we are. --- */

static bool urls_equal(const char *const *mine, const struct member *member) {
    size_t n = 0;
    for (; mine[n] != NULL && n < MEMBER_URLS_MAX; n++) {
        if (member->client_urls[n] == NULL || strcmp(member->client_urls[n], mine[n]) != 0) {
            return false;
        }
    }
    return member->client_urls[n] == NULL;
}

static void published(struct service_request *request, const struct outcome *outcome) {
    struct service *service = list_entry(request, struct service, members.request);
    (void)outcome; /* looked at again, and said again if need be */
    service->members.is_publishing = false;
}

static void publish(struct service *service, uint64_t now_ms) {
    const struct member *self = member_table_find(table_of(service), service->options.member_id);
    bool is_told = self != NULL && self->facts.is_started &&
                   self->facts.data_dir_id == service->options.data_dir_id &&
                   strcmp(self->name, service->options.name) == 0 &&
                   urls_equal(service->options.client_urls, self);
    if (self == NULL || is_told || service->members.is_publishing || cluster_leader(service) == 0 ||
        (service->members.published_ms != 0 &&
         clock_elapsed_ms(now_ms, service->members.published_ms) < PUBLISH_RETRY_MS)) {
        return;
    }
    struct member_facts facts = {.id = service->options.member_id,
                                 .data_dir_id = service->options.data_dir_id,
                                 .name = bytes_from_text(service->options.name)};
    add_client_urls(service, &facts);
    struct command command = {.type = COMMAND_MEMBER,
                              .member = {.action = MEMBER_PUBLISH, .facts = &facts}};
    service->members.is_publishing = true;
    service->members.published_ms = now_ms;
    service->members.request.done = published;
    service_submit(service, &caller_server, &service->members.request, &command);
}

/* --- Being removed. --- */

static void explain_replaced(const struct service *service, char out_reason[REPLACED_SIZE]) {
    uint64_t id = service->options.member_id;
    const char *url = service->options.peer_urls[0];
    snprintf(out_reason, REPLACED_SIZE,
             "the other members know member %016" PRIx64 " with another data directory: the votes "
             "it gave and the writes it acknowledged are not in this one, so it must not go on "
             "under this id. If the old directory still exists, start with that one (--data-dir; "
             "is its disk mounted?). If it is lost: etcdctl member remove %" PRIx64 "; etcdctl "
             "member add %s --peer-urls=%s; then start with an empty directory and "
             "--initial-cluster-state=existing. If a majority of the members lost their data, no "
             "member can be removed: first start one that has its data with --force-new-cluster",
             id, id, service->options.name, url != NULL ? url : "URL");
}

/* The leader knows all members: who leads, or is welcome to the one who does, is one of them,
 * whatever is said at another member's address. Without a proof, that may be anybody. */
static bool is_welcome_to_leader(struct service *service, uint64_t by_id, uint64_t now_ms) {
    uint64_t leader_id = raft_engine_leader_id(service->engine);
    return cluster_is_authority(service, now_ms) ||
           (leader_id != 0 && leader_id != by_id && leader_id != service->options.member_id &&
            peers_is_linked(service->peers, leader_id));
}

void members_turned_away(void *data, uint64_t by_id, enum peer_answer answer) {
    struct service *service = data;
    struct members *members = &service->members;
    uint64_t now_ms = clock_boottime_ms();
    /* Who does not know us may not have heard of us yet. */
    if (members->is_turned_away || service->closing || service->failed ||
        answer == PEER_NOT_A_MEMBER) {
        return;
    }
    if (is_welcome_to_leader(service, by_id, now_ms)) {
        members->removed_ms = 0;
        return;
    }
    if (answer == PEER_DISK_REPLACED) {
        char reason[REPLACED_SIZE];
        members->is_turned_away = true;
        explain_replaced(service, reason);
        service_fail(service, STATUS_DATA_DIR_REPLACED, reason);
        return;
    }
    if (members->removed_ms == 0) {
        members->removed_ms = now_ms;
    }
    /* Said again at each attempt. Right after a start the leader may not have been heard yet. */
    if (clock_elapsed_ms(now_ms, members->removed_ms) < REMOVED_PATIENCE_MS) {
        return;
    }
    members->is_turned_away = true;
    log_error("this node was removed from the cluster");
    if (service->options.removed != NULL) {
        service->options.removed(service->options.data);
    }
}

/* --- Data directories. --- */

void members_remember(struct service *service) {
    if (service->options.data_dir_ids_path != NULL) {
        data_dir_ids_load(service->options.data_dir_ids_path, &service->members.data_dir_ids);
    }
}

static void keep_data_dir_ids(struct service *service) {
    struct data_dir_ids ids;
    data_dir_ids_of_table(table_of(service), &ids);
    if (service->options.data_dir_ids_path == NULL || ids.n == 0 ||
        data_dir_ids_equal(&ids, &service->members.data_dir_ids)) {
        return;
    }
    if (data_dir_ids_store(service->options.data_dir_ids_path, &ids)) {
        service->members.data_dir_ids = ids;
    } else {
        log_warning("what is known of the members' data directories cannot be stored");
    }
}

static bool is_disk_replaced(const struct service *service, uint64_t id, uint64_t data_dir_id) {
    const struct member *member = member_table_find(table_of(service), id);
    uint64_t known = member != NULL ? member->facts.data_dir_id : 0;
    if (known == 0) {
        known = data_dir_ids_find(&service->members.data_dir_ids, id);
    }
    return known != 0 && data_dir_id != 0 && known != data_dir_id;
}

/* --- Members that need not prove anything. --- */

static bool is_given(const char *text) {
    return text != NULL && *text != '\0';
}

/* Certificates that are made by themselves encrypt, and prove nothing; nor does one of any
 * authority that the system trusts, unless a name is asked for. */
bool members_are_proven(const struct service *service) {
    const struct tls_options *tls = service->options.peer_tls;
    return service->options.peer_secret.size > 0 ||
           (tls != NULL && tls->verify == TLS_VERIFY_REQUIRED &&
            (is_given(tls->ca_file) || is_given(tls->allowed_cn) ||
             is_given(tls->allowed_hostname)));
}

/* A member is believed whom it asks for. Told once, at a start or when authentication is enabled.
 */
static void warn_of_unproven_peers(struct service *service) {
    bool is_unsafe = !cluster_is_alone(service) && !members_are_proven(service) &&
                     auth_is_enabled(state_machine_auth(service->machine));
    if (is_unsafe && !service->members.is_warned) {
        log_warning(
            "authentication is on, and members need not prove who they are: whoever reaches "
            "the peer port can read and change everything without a password. Give all "
            "members certificates (--peer-cert-file, --peer-trusted-ca-file, "
            "--peer-client-cert-auth) or a secret (--peer-secret-file)",
            LOG_TEXT("peer address", service->options.peer_address));
    }
    service->members.is_warned = is_unsafe;
}

/* --- One iteration of the loop. --- */

void members_poll(struct service *service, uint64_t now_ms) {
    uint64_t version = member_table_version(table_of(service));
    bool is_due =
        version != service->members.version ||
        clock_elapsed_ms(now_ms, service->members.checked_ms) >= service->options.heartbeat_ms;
    if (!is_due || service->closing || service->failed) {
        return;
    }
    bool has_changed = version != service->members.version;
    service->members.checked_ms = now_ms;
    service->members.version = version;
    force_new_cluster_poll(service, now_ms);
    bool has_company = (member_table_count(table_of(service)) > 1 ||
                        raft_engine_configuration(service->engine)->n > 1) &&
                       !force_new_cluster_is_pending(service);
    if (has_company && cluster_is_alone(service)) {
        char error[256] = "";
        if (cluster_open_peers(service, error, sizeof error) != STATUS_OK) {
            service_fail(service, STATUS_CANNOT_LISTEN, error);
            return;
        }
    }
    if (!cluster_is_alone(service)) {
        keep_links(service);
        peers_check_inbound(service->peers);
        if (service->leader_lease.term != 0) {
            members_count_voters(service);
        }
    }
    if (has_changed) {
        keep_data_dir_ids(service);
    }
    warn_of_unproven_peers(service);
    publish(service, now_ms);
    reconfigure_poll(service, now_ms);
}

/* --- Telling of them. --- */

bool members_is_learner(const struct service *service) {
    const struct raft_config_server *self = members_server(service, service->options.member_id);
    return self == NULL ? service->options.is_joining : self->role != CONFIG_VOTER;
}

size_t service_differing_timers(struct service *service, struct service_timers *out_timers,
                                size_t capacity) {
    size_t n = 0;
    for (size_t i = 0; i < service->cluster.n_timers && n < capacity; i++) {
        const struct service_timers *timers = &service->cluster.timers[i];
        if (differs(service, timers) &&
            member_table_find(table_of(service), timers->member_id) != NULL) {
            out_timers[n++] = *timers;
        }
    }
    return n;
}

size_t service_members(struct service *service, struct service_member *out_members,
                       size_t capacity) {
    const struct member_table *table = table_of(service);
    size_t n = member_table_count(table);
    for (size_t i = 0; i < n && i < capacity; i++) {
        const struct member *member = member_table_at(table, i);
        out_members[i] =
            (struct service_member){.id = member->facts.id,
                                    .name = member->facts.is_started ? member->name : "",
                                    .client_urls = member->client_urls,
                                    .peer_urls = member->peer_urls,
                                    .is_learner = member->facts.role == MEMBER_LEARNER,
                                    .is_started = member->facts.is_started};
    }
    if (n > 0) {
        return n;
    }
    static const char *const no_urls[] = {NULL};
    for (size_t i = 0; i < service->options.n_members && i < capacity; i++) {
        const struct replication_member *member = &service->options.members[i];
        bool is_self = member->id == service->options.member_id;
        out_members[i] =
            (struct service_member){.id = member->id,
                                    .name = member->name,
                                    .client_urls = is_self ? service->options.client_urls : no_urls,
                                    .peer_urls = member->peer_urls,
                                    .is_started = true};
    }
    if (service->options.n_members > 0) {
        return service->options.n_members;
    }
    if (capacity > 0) {
        out_members[0] = (struct service_member){.id = service->options.member_id,
                                                 .name = service->options.name,
                                                 .client_urls = service->options.client_urls,
                                                 .peer_urls = service->options.peer_urls,
                                                 .is_started = true};
    }
    return 1;
}
