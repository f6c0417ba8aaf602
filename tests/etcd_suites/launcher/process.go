package integration

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	askLimit     = time.Second
	logTailBytes = 6000
)

// process is one run of the server. It has the methods by which tests ask etcd's server inside their own process; here the
// questions go to a Unix socket that no test knows of, so that neither certificates nor bridges are between.
type process struct {
	m      *member
	cmd    *exec.Cmd
	conn   *grpc.ClientConn
	exited chan struct{} // closed when it has ended

	mu       sync.Mutex
	id       types.ID
	ready    chan struct{}
	watching bool

	waitersMu sync.Mutex
	waiters   []termWaiter
}

// termWaiter waits until an entry of a later term is applied.
type termWaiter struct {
	before *pb.StatusResponse
	done   chan struct{}
}

func startProcess(m *member) (*process, error) {
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{m: m, cmd: exec.Command(os.Getenv("LEASED"), m.flags()...), exited: make(chan struct{}),
		ready: make(chan struct{})}
	if m.s != nil {
		p.id = m.s.id
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.conn, err = grpc.Dial("unix:"+m.adminSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	if err = p.cmd.Start(); err != nil {
		p.conn.Close()
		return nil, fmt.Errorf("LEASED must name the server: %w", err)
	}
	nameProcess(p.cmd.Process.Pid, m)
	go func() {
		p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

func (m *member) logFile() string { return filepath.Join(m.folder, "log") }

func (m *member) flags() []string {
	flags := []string{
		"--name", m.Name, "--data-dir", m.DataDir,
		"--listen-client-urls", m.clientURL(0) + ",unix://" + m.adminSocket(), "--advertise-client-urls", m.URL(),
		"--listen-peer-urls", m.listenPeerURL(), "--initial-advertise-peer-urls", m.PeerURLs.String(),
		"--initial-cluster", m.InitialPeerURLsMap.String(), "--initial-cluster-token", m.InitialClusterToken,
		"--heartbeat-interval", strconv.Itoa(heartbeatMs),
		"--election-timeout", strconv.FormatInt(m.ElectionTimeout().Milliseconds(), 10),
		"--auth-token", m.AuthToken, "--auth-token-ttl", strconv.FormatUint(uint64(m.TokenTTL), 10),
	}
	number := func(flag string, value uint64) {
		if value != 0 {
			flags = append(flags, flag, strconv.FormatUint(value, 10))
		}
	}
	duration := func(flag string, value time.Duration) {
		if value != 0 {
			flags = append(flags, flag, value.String())
		}
	}
	number("--quota-backend-bytes", uint64(m.QuotaBackendBytes))
	number("--max-txn-ops", uint64(m.MaxTxnOps))
	number("--max-request-bytes", uint64(m.MaxRequestBytes))
	number("--snapshot-count", m.SnapshotCount)
	number("--experimental-snapshot-catchup-entries", m.SnapshotCatchUpEntries)
	duration("--experimental-watch-progress-notify-interval", m.WatchProgressNotifyInterval)
	duration("--grpc-keepalive-min-time", m.cluster.GRPCKeepAliveMinTime)
	duration("--grpc-keepalive-interval", m.cluster.GRPCKeepAliveInterval)
	duration("--grpc-keepalive-timeout", m.cluster.GRPCKeepAliveTimeout)
	if m.ForceNewCluster {
		flags = append(flags, "--force-new-cluster")
	}
	if !m.NewCluster {
		flags = append(flags, "--initial-cluster-state", "existing")
	}
	flags = append(flags, tlsFlags("--", m.clientTLS)...)
	flags = append(flags, tlsFlags("--peer-", m.PeerTLSInfo)...)
	return append(flags, tlsLimits(m.clientTLS)...)
}

func tlsFlags(prefix string, info *transport.TLSInfo) []string {
	if info == nil {
		return nil
	}
	flags := []string{prefix + "cert-file", info.CertFile, prefix + "key-file", info.KeyFile}
	if info.TrustedCAFile != "" {
		flags = append(flags, prefix+"trusted-ca-file", info.TrustedCAFile)
	}
	if info.ClientCertAuth {
		flags = append(flags, prefix+"client-cert-auth")
	}
	if info.ClientCertFile != "" && prefix == "--peer-" {
		flags = append(flags, prefix+"client-cert-file", info.ClientCertFile, prefix+"client-key-file", info.ClientKeyFile)
	}
	return flags
}

func tlsLimits(info *transport.TLSInfo) []string {
	if info == nil {
		return nil
	}
	flags := []string{}
	names := map[uint16]string{tls.VersionTLS12: "TLS1.2", tls.VersionTLS13: "TLS1.3"}
	if name := names[info.MinVersion]; name != "" {
		flags = append(flags, "--tls-min-version", name)
	}
	if name := names[info.MaxVersion]; name != "" {
		flags = append(flags, "--tls-max-version", name)
	}
	suites := []string{}
	for _, suite := range info.CipherSuites {
		suites = append(suites, tls.CipherSuiteName(suite))
	}
	if len(suites) > 0 {
		flags = append(flags, "--cipher-suites", strings.Join(suites, ","))
	}
	return flags
}

// kill ends the process as a machine that loses power does, and waits for its end.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.exited
	p.conn.Close()
}

func (p *process) isRunning() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

var errEnded = errors.New("the server ended")

// waitServing waits until the process accepts connections; an error with its last words when it ended instead.
func (p *process) waitServing(limit time.Duration) error {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if conn, err := net.Dial("unix", p.m.adminSocket()); err == nil {
			conn.Close()
			return nil
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%w: %s", errEnded, p.m.logTail())
		case <-time.After(pollInterval):
		}
	}
	return nil
}

func (m *member) logTail() string {
	data, _ := os.ReadFile(m.logFile())
	if len(data) > logTailBytes {
		data = data[len(data)-logTailBytes:]
	}
	return string(data)
}

// showLog is for the cases that fail.
func (m *member) showLog() {
	fmt.Printf("--- the last of what %s logged:\n%s\n", m.Name, m.logTail())
}

func (p *process) StopNotify() <-chan struct{} { return p.exited }

// ReadyNotify is closed once the process has a leader.
func (p *process) ReadyNotify() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.watching {
		p.watching = true
		go p.poll(p.ready, p.hasLeader)
	}
	return p.ready
}

// FirstCommitInTermNotify is closed once the process is known to have applied an entry of a later term: each status that
// anybody asks for tells it.
func (p *process) FirstCommitInTermNotify() <-chan struct{} {
	one := termWaiter{p.status(), make(chan struct{})}
	p.waitersMu.Lock()
	defer p.waitersMu.Unlock()
	p.waiters = append(p.waiters, one)
	return one.done
}

func (p *process) tellWaiters(now *pb.StatusResponse) {
	p.waitersMu.Lock()
	defer p.waitersMu.Unlock()
	left := p.waiters[:0]
	for _, one := range p.waiters {
		if one.before == nil || now.RaftTerm > one.before.RaftTerm && now.RaftAppliedIndex > one.before.RaftAppliedIndex {
			close(one.done)
		} else {
			left = append(left, one)
		}
	}
	p.waiters = left
}

// poll closes a channel when something holds; it ends with the process.
func (p *process) poll(done chan struct{}, holds func() bool) {
	for !holds() {
		select {
		case <-p.exited:
			return
		case <-time.After(pollInterval):
		}
	}
	close(done)
}

func asking() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), askLimit)
}

// status is nil when there is no answer.
func (p *process) status() *pb.StatusResponse {
	ctx, cancel := asking()
	defer cancel()
	status, err := pb.NewMaintenanceClient(p.conn).Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(p.isRunning()))
	if err != nil {
		return nil
	}
	p.tellWaiters(status)
	return status
}

// hasLeader also holds where authentication keeps all but its health from those who have no name.
func (p *process) hasLeader() bool {
	if p.leader() != 0 {
		return true
	}
	health, err := p.m.page("/health")
	return err == nil && strings.Contains(health, `"true"`)
}

// leader is 0 when there is none, or no answer.
func (p *process) leader() uint64 {
	if status := p.status(); status != nil {
		return status.Leader
	}
	return 0
}

// ID is asked for once, and known when the process has ended.
func (p *process) ID() types.ID {
	p.mu.Lock()
	defer p.mu.Unlock()
	for deadline := time.Now().Add(startLimit); p.id == 0 && time.Now().Before(deadline); {
		if status := p.status(); status != nil {
			p.id = types.ID(status.Header.MemberId)
		} else {
			time.Sleep(pollInterval)
		}
	}
	return p.id
}

func (p *process) AppliedIndex() uint64 {
	if status := p.status(); status != nil {
		return status.RaftAppliedIndex
	}
	return 0
}

// answers is true when a read of its own data is served, or refused for want of a user.
func (p *process) answers() bool {
	ctx, cancel := asking()
	defer cancel()
	_, err := pb.NewKVClient(p.conn).Range(ctx, &pb.RangeRequest{Key: []byte("/"), Serializable: true})
	return err == nil || rpctypes.Error(err) == rpctypes.ErrUserEmpty
}

func (p *process) members() ([]*pb.Member, error) {
	ctx, cancel := asking()
	defer cancel()
	list, err := pb.NewClusterClient(p.conn).MemberList(ctx, &pb.MemberListRequest{})
	if err != nil {
		return nil, err
	}
	return list.Members, nil
}

func (p *process) Alarm(ctx context.Context, r *pb.AlarmRequest) (*pb.AlarmResponse, error) {
	return pb.NewMaintenanceClient(p.conn).Alarm(ctx, r)
}

// TransferLeadership moves it from this process to another voter, if there is one.
func (p *process) TransferLeadership() error {
	members, err := p.members()
	if err != nil {
		return err
	}
	for _, other := range members {
		if other.ID == uint64(p.ID()) || other.IsLearner {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), clientDialLimit)
		_, err = pb.NewMaintenanceClient(p.conn).MoveLeader(ctx, &pb.MoveLeaderRequest{TargetID: other.ID})
		cancel()
		if err == nil {
			return nil
		}
	}
	return err
}

// page is what the process answers to GET.
func (m *member) page(path string) (string, error) {
	web := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", m.adminSocket())
	}}
	answer, err := (&http.Client{Transport: web, Timeout: clientDialLimit}).Get("http://localhost" + path)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(text), err
}

// Metric is the value of a series whose labels contain all of those that are expected.
func (m *member) Metric(name string, expectLabels ...string) (string, error) {
	text, err := m.page("/metrics")
	if err != nil {
		return "", err
	}
	for _, line := range strings.Split(text, "\n") {
		series, value, _ := strings.Cut(line, " ")
		if hasLabels(series, name, expectLabels) {
			return value, nil
		}
	}
	return "", nil
}

func hasLabels(series, name string, labels []string) bool {
	if !strings.HasPrefix(series, name) || strings.HasPrefix(series, "#") {
		return false
	}
	for _, label := range labels {
		if !strings.Contains(series, label) {
			return false
		}
	}
	return true
}
