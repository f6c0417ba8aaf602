// Package integration has clusters whose members are processes of the server that LEASED names, under the names that the
// integration suite of etcd has for clusters of its own server.
package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/testutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	client "go.etcd.io/etcd/tests/v3/integration/v2client"
)

// RequestWaitTimeout is how long tests wait for an answer.
const RequestWaitTimeout = 5 * time.Second

// fixtures is a file of the suite, wherever under its folder the test binary runs.
func fixtures(words ...string) string {
	folder, _ := os.Getwd()
	for ; folder != "/"; folder = filepath.Dir(folder) {
		path := filepath.Join(append([]string{folder}, words...)...)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

func tlsOf(folder, name string) transport.TLSInfo {
	return transport.TLSInfo{
		KeyFile:        fixtures(folder, name+".key.insecure"),
		CertFile:       fixtures(folder, name+".crt"),
		TrustedCAFile:  fixtures(folder, "ca.crt"),
		ClientCertAuth: true,
	}
}

func withClientCertificate(info transport.TLSInfo, name string) transport.TLSInfo {
	info.ClientKeyFile = fixtures("fixtures", name+".key.insecure")
	info.ClientCertFile = fixtures("fixtures", name+".crt")
	return info
}

var (
	TestTLSInfo                  = tlsOf("fixtures", "server")
	testTLSInfoWithSpecificUsage = withClientCertificate(tlsOf("fixtures", "server-serverusage"), "client-clientusage")
	testTLSInfoIP                = tlsOf("fixtures", "server-ip")
	testTLSInfoExpired           = tlsOf(filepath.Join("integration", "fixtures-expired"), "server")
	testTLSInfoExpiredIP         = tlsOf(filepath.Join("integration", "fixtures-expired"), "server-ip")
	defaultTokenJWT              = fmt.Sprintf("jwt,pub-key=%s,priv-key=%s,sign-method=RS256,ttl=2s",
		fixtures("fixtures", "server.crt"), fixtures("fixtures", "server.key.insecure"))
)

// ClusterConfig has the fields that tests set. What only a server in the same process can do is not used.
type ClusterConfig struct {
	Size      int
	PeerTLS   *transport.TLSInfo
	ClientTLS *transport.TLSInfo

	DiscoveryURL string

	AuthToken    string
	AuthTokenTTL uint

	UseGRPC            bool
	UseIP              bool
	UseTCP             bool
	UseBridge          bool
	SkipCreatingClient bool

	QuotaBackendBytes      int64
	MaxTxnOps              uint
	MaxRequestBytes        uint
	SnapshotCount          uint64
	SnapshotCatchUpEntries uint64

	GRPCKeepAliveMinTime  time.Duration
	GRPCKeepAliveInterval time.Duration
	GRPCKeepAliveTimeout  time.Duration

	ClientMaxCallSendMsgSize int
	ClientMaxCallRecvMsgSize int

	EnableLeaseCheckpoint   bool
	LeaseCheckpointInterval time.Duration
	LeaseCheckpointPersist  bool

	WatchProgressNotifyInterval time.Duration
	CorruptCheckTime            time.Duration
}

type cluster struct {
	cfg     *ClusterConfig
	Members []*member
	made    int64 // members so far, those that are gone too
}

func newCluster(t testutil.TB, cfg *ClusterConfig) *cluster {
	if cfg.DiscoveryURL != "" {
		t.Fatal("the server has no discovery")
	}
	c := &cluster{cfg: cfg}
	for len(c.Members) < cfg.Size {
		c.Members = append(c.Members, c.newMember(t, false))
	}
	c.tellMembers(t, c.Members)
	return c
}

func NewClusterByConfig(t testutil.TB, cfg *ClusterConfig) *cluster { return newCluster(t, cfg) }

func NewCluster(t testutil.TB, size int) *cluster { return newCluster(t, &ClusterConfig{Size: size}) }

func (c *cluster) newMember(t testutil.TB, isLearner bool) *member {
	m := mustNewMember(t, memberConfig{name: fmt.Sprintf("m%d", c.made), cluster: c.cfg, useBridge: c.cfg.UseBridge,
		isLearner: isLearner})
	m.MemberNumber = c.made
	c.made++
	return m
}

// tellMembers gives --initial-cluster to those of the list.
func (c *cluster) tellMembers(t testutil.TB, members []*member) {
	text := ""
	for _, m := range members {
		text += "," + m.Name + "=" + m.PeerURLs.String()
	}
	if text == "" {
		return
	}
	for _, m := range members {
		all, err := types.NewURLsMap(text[1:])
		if err != nil {
			t.Fatal(err)
		}
		m.InitialPeerURLsMap = all
	}
}

// Launch starts all members and waits until they agree on who they are and who leads.
func (c *cluster) Launch(t testutil.TB) {
	errs := make([]error, len(c.Members))
	var all sync.WaitGroup
	for i, m := range c.Members {
		all.Add(1)
		go func(i int, m *member) {
			defer all.Done()
			errs[i] = m.Launch()
		}(i, m)
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			c.Terminate(t)
			t.Fatalf("member %d does not start: %v", i, err)
		}
	}
	c.waitMembersMatch(t, c.HTTPMembers())
	c.waitLeader(t, c.Members)
}

func (c *cluster) Terminate(t testutil.TB) {
	var all sync.WaitGroup
	for _, m := range c.Members {
		all.Add(1)
		go func(m *member) {
			defer all.Done()
			m.Terminate(t)
		}(m)
	}
	all.Wait()
}

func (c *cluster) URL(i int) string { return c.Members[i].URL() }

func (c *cluster) URLs() []string {
	urls := []string{}
	for _, m := range c.Members {
		if m.isRunning() {
			urls = append(urls, m.URL())
		}
	}
	return urls
}

// HTTPMembers is what each member should list.
func (c *cluster) HTTPMembers() []client.Member {
	members := []client.Member{}
	for _, m := range c.Members {
		members = append(members, client.Member{Name: m.Name, PeerURLs: urlStrings(m.PeerURLs), ClientURLs: urlStrings(m.ClientURLs)})
	}
	return members
}

// MustNewHTTPClient asks by v3, see v2client.
func MustNewHTTPClient(t testutil.TB, eps []string, info *transport.TLSInfo) client.Client {
	c := client.Client{Endpoints: eps}
	if info != nil {
		config, err := info.ClientConfig()
		if err != nil {
			t.Fatal(err)
		}
		c.TLS = config
	}
	return c
}

// peersOf is a list of members in a form that can be compared.
func peersOf(members []client.Member) []string {
	texts := []string{}
	for _, m := range members {
		texts = append(texts, fmt.Sprint(m.PeerURLs, m.ClientURLs))
	}
	sort.Strings(texts)
	return texts
}

// waitMembersMatch waits until every member that runs lists these.
func (c *cluster) waitMembersMatch(t testutil.TB, expected []client.Member) {
	want := peersOf(expected)
	for _, m := range c.Members {
		if !m.isRunning() {
			continue
		}
		m.waitUntil(t, fmt.Sprintf("lists %v", want), func() bool {
			listed, err := m.s.members()
			if err != nil {
				return !m.isRunning()
			}
			list := []client.Member{}
			for _, one := range listed {
				list = append(list, client.Member{PeerURLs: one.PeerURLs, ClientURLs: one.ClientURLs})
			}
			return reflect.DeepEqual(peersOf(list), want)
		})
	}
}

func (c *cluster) WaitLeader(t testutil.TB) int { return c.waitLeader(t, c.Members) }

// waitLeader waits until those of the members that run have the same leader, which is one of them, and gives its index.
func (c *cluster) waitLeader(t testutil.TB, members []*member) int {
	for deadline := time.Now().Add(agreementLimit); time.Now().Before(deadline); time.Sleep(pollInterval) {
		if index, ok := agreedLeader(members); ok {
			return index
		}
	}
	t.Fatalf("no leader of %d members after %v", len(members), agreementLimit)
	return -1
}

func agreedLeader(members []*member) (int, bool) {
	var lead uint64
	for _, m := range members {
		if !m.isRunning() {
			continue
		}
		mine := m.s.leader()
		if mine == 0 || lead != 0 && mine != lead {
			return 0, false
		}
		lead = mine
	}
	for i, m := range members {
		if lead != 0 && m.isRunning() && uint64(m.s.ID()) == lead {
			return i, true
		}
	}
	return 0, false
}

func (c *cluster) WaitNoLeader() { c.waitNoLeader(c.Members) }

// waitNoLeader waits until none of the members that run has a leader.
func (c *cluster) waitNoLeader(members []*member) {
	for {
		some := false
		for _, m := range members {
			some = some || m.isRunning() && m.s.leader() != 0
		}
		if !some {
			return
		}
		time.Sleep(pollInterval)
	}
}

// someone runs a question at one running member after another until one of them has no error. A member that the question
// removes is not asked: it may stop before it answers.
func (c *cluster) someone(removed uint64, question func(context.Context, pb.ClusterClient) error) error {
	err := fmt.Errorf("no other member runs")
	for _, m := range c.Members {
		if !m.isRunning() || uint64(m.s.ID()) == removed {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		err = question(ctx, pb.NewClusterClient(m.s.conn))
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// AddMember adds a member, starts it, and waits until all list it.
func (c *cluster) AddMember(t testutil.TB) types.URLs {
	m := c.newMember(t, false)
	c.join(t, m)
	return m.PeerURLs
}

func (c *cluster) join(t testutil.TB, m *member) {
	err := c.someone(0, func(ctx context.Context, peers pb.ClusterClient) error {
		_, err := peers.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: urlStrings(m.PeerURLs), IsLearner: m.isLearner})
		return err
	})
	if err != nil {
		t.Fatalf("adding a member: %v", err)
	}
	m.NewCluster = false
	all, before := append(append([]*member{}, c.Members...), m), initialOf(c.Members)
	c.tellMembers(t, all)
	for i, old := range c.Members {
		old.InitialPeerURLsMap = before[i]
	}
	if err := m.Launch(); err != nil {
		t.Fatalf("the new member does not start: %v", err)
	}
	c.Members = all
	c.waitMembersMatch(t, c.HTTPMembers())
}

func initialOf(members []*member) []types.URLsMap {
	maps := make([]types.URLsMap, len(members))
	for i, m := range members {
		maps[i] = m.InitialPeerURLsMap
	}
	return maps
}

// addMemberByURL only announces one.
func (c *cluster) addMemberByURL(t testutil.TB, clientURL, peerURL string) error {
	for _, m := range c.Members {
		if m.URL() == clientURL && m.isRunning() {
			ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
			defer cancel()
			_, err := pb.NewClusterClient(m.s.conn).MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{peerURL}})
			return err
		}
	}
	return fmt.Errorf("no member runs at %s", clientURL)
}

func (c *cluster) RemoveMember(t testutil.TB, id uint64) {
	if err := c.removeMember(t, id); err != nil {
		t.Fatal(err)
	}
}

// removeMember removes one and waits until it has stopped and is listed no more.
func (c *cluster) removeMember(t testutil.TB, id uint64) error {
	err := c.someone(id, func(ctx context.Context, peers pb.ClusterClient) error {
		_, err := peers.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
		return err
	})
	if err != nil {
		return err
	}
	left := []*member{}
	for _, m := range c.Members {
		if uint64(m.s.ID()) != id {
			left = append(left, m)
			continue
		}
		select {
		case <-m.s.StopNotify():
			m.Terminate(t)
		case <-time.After(removedStopLimit):
			t.Fatalf("the removed member %s did not stop in %v", m.Name, removedStopLimit)
		}
	}
	c.Members = left
	c.waitMembersMatch(t, c.HTTPMembers())
	return nil
}
