package integration

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/testutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/pkg/v3/grpc_testing"
	"go.etcd.io/etcd/server/v3/config"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

const (
	firstPort        = 21000
	portsPerMember   = 2 // clients, and the bridge before them
	heartbeatMs      = 50
	startLimit       = 10 * time.Second
	pollInterval     = 10 * time.Millisecond
	agreementLimit   = 30 * time.Second
	defaultTokenTTL  = 300
	requestTimeout   = 20 * time.Second
	tickDuration     = 10 * time.Millisecond
	clientDialLimit  = 5 * time.Second
	removedStopLimit = 20 * time.Second
)

// Election timeout in ticks of the suite; a test may change it. Some wait for three times etcd's own, 300 ms, until a
// leader must be lost.
var electionTicks = 25

var membersMade atomic.Int64

// memberConfig is what a member is made of; tests name it and choose a bridge.
type memberConfig struct {
	name      string
	useBridge bool
	cluster   *ClusterConfig
	peerURLs  types.URLs // given by the test; a Unix socket behind a proxy otherwise
	isLearner bool
}

// member is one process of leased with the addresses it keeps through restarts. The suite sets fields of the embedded
// configuration before it is launched; flags are made of them at each start.
type member struct {
	config.ServerConfig

	UniqNumber    int64
	MemberNumber  int64
	PeerTLSInfo   *transport.TLSInfo
	ClientTLSInfo *transport.TLSInfo
	DialOptions   []grpc.DialOption

	s                    *process // the last one started
	folder               string   // sockets and the log
	port                 int
	grpcURL              string
	useBridge            bool
	isLearner            bool
	isClone              bool
	keepDataDirTerminate bool
	cluster              *ClusterConfig
	clientTLS            *transport.TLSInfo // as launched: tests change ClientTLSInfo

	mu     sync.Mutex
	bridge *bridge
	links  *peerProxy
}

func mustNewMember(t testutil.TB, mcfg memberConfig) *member {
	if mcfg.cluster == nil {
		mcfg.cluster = &ClusterConfig{}
	}
	cfg := mcfg.cluster
	number := membersMade.Add(1)
	folder, err := os.MkdirTemp("", "m")
	if err != nil {
		t.Fatal(err)
	}
	m := &member{
		UniqNumber: number, folder: folder, port: firstPort + portsPerMember*int(number), useBridge: mcfg.useBridge,
		isLearner: mcfg.isLearner, cluster: cfg, PeerTLSInfo: cfg.PeerTLS, ClientTLSInfo: cfg.ClientTLS,
		clientTLS: cfg.ClientTLS,
	}
	m.Name = mcfg.name
	m.Logger = zap.NewNop()
	m.DataDir = filepath.Join(folder, "data")
	m.TickMs = uint(tickDuration / time.Millisecond)
	m.ElectionTicks = electionTicks
	m.NewCluster = true
	m.InitialClusterToken = "cluster"
	m.AuthToken, m.TokenTTL = "simple", defaultTokenTTL
	if cfg.AuthToken != "" {
		m.AuthToken = cfg.AuthToken
	}
	if cfg.AuthTokenTTL != 0 {
		m.TokenTTL = cfg.AuthTokenTTL
	}
	m.QuotaBackendBytes, m.MaxTxnOps, m.MaxRequestBytes = cfg.QuotaBackendBytes, cfg.MaxTxnOps, cfg.MaxRequestBytes
	m.SnapshotCount, m.SnapshotCatchUpEntries = cfg.SnapshotCount, cfg.SnapshotCatchUpEntries
	m.WatchProgressNotifyInterval, m.CorruptCheckTime = cfg.WatchProgressNotifyInterval, cfg.CorruptCheckTime
	m.ClientURLs = mustURLs(t, m.clientURL(0))
	m.PeerURLs = mcfg.peerURLs
	if m.PeerURLs == nil {
		m.PeerURLs = mustURLs(t, schemeOf("unix", m.PeerTLSInfo)+"://"+filepath.Join(folder, "peers"))
	}
	if m.InitialPeerURLsMap, err = types.NewURLsMap(m.Name + "=" + m.PeerURLs.String()); err != nil {
		t.Fatal(err)
	}
	m.grpcURL = m.clientURL(0)
	if m.useBridge {
		m.grpcURL = m.clientURL(1)
	}
	return m
}

func mustURLs(t testutil.TB, one string) types.URLs {
	urls, err := types.NewURLs([]string{one})
	if err != nil {
		t.Fatal(err)
	}
	return urls
}

// schemeOf gives https for http, and unixs for unix, where there is TLS.
func schemeOf(scheme string, info *transport.TLSInfo) string {
	if info == nil {
		return scheme
	}
	return scheme + "s"
}

func (m *member) clientURL(offset int) string {
	return fmt.Sprintf("%s://127.0.0.1:%d", schemeOf("http", m.clientTLS), m.port+offset)
}

// GrpcPortNumber is the port that clients of a member connect to.
func GrpcPortNumber(uniqNumber, _ int64) int64 { return firstPort + portsPerMember*uniqNumber }

func (m *member) GRPCURL() string { return m.grpcURL }
func (m *member) URL() string     { return m.ClientURLs[0].String() }
func (m *member) ID() types.ID    { return m.s.ID() }

func (m *member) ElectionTimeout() time.Duration {
	return time.Duration(m.ElectionTicks) * tickDuration
}

// RecordedRequests cannot be seen from outside of a process.
func (m *member) RecordedRequests() []grpc_testing.RequestInfo { return nil }

func (m *member) StopNotify() <-chan struct{}  { return m.s.StopNotify() }
func (m *member) ReadyNotify() <-chan struct{} { return m.s.ReadyNotify() }

func (m *member) adminSocket() string { return filepath.Join(m.folder, "admin") }

// peerSocket is where the process itself listens; m.PeerURLs has what other members are told.
func (m *member) peerSocket() string { return filepath.Join(m.folder, "peers-process") }

func (m *member) isBehindProxy() bool {
	return (m.PeerURLs[0].Scheme == "unix" || m.PeerURLs[0].Scheme == "unixs") && !m.isClone
}

func (m *member) listenPeerURL() string {
	first := m.PeerURLs[0]
	if first.Scheme == "unix" || first.Scheme == "unixs" {
		return first.Scheme + "://" + m.peerSocket()
	}
	return first.String()
}

// Clone is a second member of the same name and addresses for other members, with a folder of its own.
func (m *member) Clone(t testutil.TB) *member {
	clone := mustNewMember(t, memberConfig{name: m.Name, cluster: m.cluster, peerURLs: m.PeerURLs})
	clone.InitialPeerURLsMap, clone.InitialClusterToken = m.InitialPeerURLsMap, m.InitialClusterToken
	clone.isClone = true
	return clone
}

// Launch starts the process; an error when it ended at once.
func (m *member) Launch() error {
	err := m.start()
	if err != nil && m.s != nil {
		m.s.kill() // nobody terminates a member that was not launched
	}
	return err
}

// Restart starts it again; whether it then runs is for StopNotify and ReadyNotify to tell.
func (m *member) Restart(t testutil.TB) error {
	if err := m.start(); errors.Is(err, errEnded) {
		t.Logf("member %s: %v", m.Name, err)
	} else if err != nil {
		return err
	}
	return nil
}

func (m *member) start() error {
	if m.s != nil {
		m.s.kill()
	}
	if err := m.openPeerProxy(); err != nil {
		return err
	}
	started, err := startProcess(m)
	if err != nil {
		return err
	}
	m.s = started
	if err := m.s.waitServing(startLimit); err != nil {
		return err
	}
	return m.openBridge()
}

// openPeerProxy opens what stands between the process and other members.
func (m *member) openPeerProxy() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isBehindProxy() || m.links != nil {
		return nil
	}
	links, err := openPeerProxy(m, m.PeerURLs[0].Path, m.peerSocket())
	m.links = links
	return err
}

// openBridge opens what stands between the process and its clients, once it serves: a bridge ends at the first connection
// that it cannot pass on.
func (m *member) openBridge() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.useBridge || m.bridge != nil {
		return nil
	}
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", m.port+1))
	if err != nil {
		return err
	}
	m.bridge, err = newBridge(clientDialer{m.port}, listener)
	return err
}

type clientDialer struct{ port int }

func (d clientDialer) Dial() (net.Conn, error) {
	return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", d.port))
}

// Bridge stands before the member's clients.
func (m *member) Bridge() *bridge {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bridge == nil {
		panic("member " + m.Name + " has no bridge: is ClusterConfig.UseBridge set, and does it run?")
	}
	return m.bridge
}

// Stop kills the process; data and addresses stay its own.
func (m *member) Stop(_ testutil.TB) { m.Close() }

func (m *member) Close() {
	if m.s != nil {
		m.s.kill()
	}
	m.mu.Lock()
	bridge, links := m.bridge, m.links
	m.bridge, m.links = nil, nil
	m.mu.Unlock()
	if bridge != nil {
		bridge.Close()
	}
	if links != nil {
		links.close()
	}
}

// Terminate ends the member for good.
func (m *member) Terminate(t testutil.TB) {
	m.Close()
	if t != nil && t.Failed() {
		m.showLog()
	}
	healAll(m)
	if m.keepDataDirTerminate {
		return
	}
	os.RemoveAll(m.DataDir)
	os.RemoveAll(m.folder)
}

func (m *member) isRunning() bool { return m.s != nil && m.s.isRunning() }

// WaitStarted waits until the member answers requests.
func (m *member) WaitStarted(t testutil.TB) { m.waitUntil(t, "answers", m.s.answers) }

// WaitOK waits until the member has a leader and answers requests.
func (m *member) WaitOK(t testutil.TB) {
	m.WaitStarted(t)
	m.waitUntil(t, "has a leader", m.s.hasLeader)
}

func (m *member) waitUntil(t testutil.TB, what string, holds func() bool) {
	for deadline := time.Now().Add(agreementLimit); !holds(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("member %s: not so after %v: %s", m.Name, agreementLimit, what)
		}
	}
}

// Pause cuts the member off from all others, Resume ends that.
func (m *member) Pause()  { isolate(m) }
func (m *member) Resume() { healAll(m) }

func (m *member) InjectPartition(_ testutil.TB, others ...*member) {
	for _, other := range others {
		cut(m, other)
	}
}

func (m *member) RecoverPartition(_ testutil.TB, others ...*member) {
	for _, other := range others {
		heal(m, other)
	}
}

// checkLeaderTransition gives the leader that a member has after another one.
func checkLeaderTransition(m *member, oldLead uint64) uint64 {
	for {
		if lead := m.s.leader(); lead != 0 && lead != oldLead {
			return lead
		}
		time.Sleep(pollInterval)
	}
}

// NewListenerWithAddr listens at an address of TCP.
func NewListenerWithAddr(t testutil.TB, addr string) net.Listener {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

func urlStrings(urls []url.URL) []string {
	texts := make([]string, len(urls))
	for i := range urls {
		texts[i] = urls[i].String()
	}
	return texts
}
