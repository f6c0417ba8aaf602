package integration

import (
	"net"
	"sync"
	"syscall"
)

// Members connect to each other through a proxy before each one's Unix socket. The kernel tells which process connects, so
// that each pair of members can be cut: bytes between the two then stay where they are, as on a dead link. When the cut
// heals, connections that it held up are closed.

type pair [2]*member

func pairOf(a, b *member) pair {
	if a.UniqNumber > b.UniqNumber {
		a, b = b, a
	}
	return pair{a, b}
}

// switchboard knows who is who, and which pairs are cut.
var switchboard = struct {
	sync.Mutex
	owners   map[int]*member // by process
	cuts     map[pair]bool
	isolated map[*member]bool
	links    map[*peerLink]bool
}{owners: map[int]*member{}, cuts: map[pair]bool{}, isolated: map[*member]bool{}, links: map[*peerLink]bool{}}

func nameProcess(pid int, m *member) {
	switchboard.Lock()
	defer switchboard.Unlock()
	switchboard.owners[pid] = m
}

// isCut must be called with the switchboard locked.
func isCut(a, b *member) bool {
	return switchboard.isolated[a] || switchboard.isolated[b] || switchboard.cuts[pairOf(a, b)]
}

func cut(a, b *member) {
	switchboard.Lock()
	defer switchboard.Unlock()
	switchboard.cuts[pairOf(a, b)] = true
}

func isolate(m *member) {
	switchboard.Lock()
	defer switchboard.Unlock()
	switchboard.isolated[m] = true
}

func heal(a, b *member) {
	switchboard.Lock()
	defer switchboard.Unlock()
	delete(switchboard.cuts, pairOf(a, b))
	closeHealed()
}

// healAll ends every cut that a member is part of.
func healAll(m *member) {
	switchboard.Lock()
	defer switchboard.Unlock()
	delete(switchboard.isolated, m)
	for one := range switchboard.cuts {
		if one[0] == m || one[1] == m {
			delete(switchboard.cuts, one)
		}
	}
	closeHealed()
}

// closeHealed closes what was held up and is no longer cut; the members connect anew.
func closeHealed() {
	for link := range switchboard.links {
		if link.heldUp && !isCut(link.from, link.to) {
			link.close()
		}
	}
}

// peerProxy is what listens in the place of a member's own socket.
type peerProxy struct {
	owner    *member
	listener *net.UnixListener
	target   string
	done     sync.WaitGroup
}

func openPeerProxy(owner *member, address, target string) (*peerProxy, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, err
	}
	p := &peerProxy{owner: owner, listener: listener, target: target}
	p.done.Add(1)
	go p.accept()
	return p, nil
}

func (p *peerProxy) close() {
	p.listener.Close()
	switchboard.Lock()
	for link := range switchboard.links {
		if link.to == p.owner {
			link.close()
		}
	}
	switchboard.Unlock()
	p.done.Wait()
}

func (p *peerProxy) accept() {
	defer p.done.Done()
	for {
		conn, err := p.listener.AcceptUnix()
		if err != nil {
			return
		}
		p.done.Add(1)
		go p.serve(conn)
	}
}

// peerLink is one connection from a member to another, through the proxy of the second.
type peerLink struct {
	from, to *member
	ends     [2]net.Conn
	closed   chan struct{}
	once     sync.Once
	heldUp   bool // with the switchboard locked
}

func (l *peerLink) close() {
	l.once.Do(func() {
		close(l.closed)
		l.ends[0].Close()
		l.ends[1].Close()
	})
}

func (p *peerProxy) serve(conn *net.UnixConn) {
	defer p.done.Done()
	target, err := net.Dial("unix", p.target)
	if err != nil {
		conn.Close()
		return
	}
	link := &peerLink{from: ownerOf(conn), to: p.owner, ends: [2]net.Conn{conn, target}, closed: make(chan struct{})}
	switchboard.Lock()
	switchboard.links[link] = true
	switchboard.Unlock()
	var copies sync.WaitGroup
	copies.Add(2)
	go func() { defer copies.Done(); link.copy(conn, target) }()
	go func() { defer copies.Done(); link.copy(target, conn) }()
	copies.Wait()
	switchboard.Lock()
	delete(switchboard.links, link)
	switchboard.Unlock()
}

// copy moves bytes one way. What comes while the pair is cut is never delivered.
func (l *peerLink) copy(from, to net.Conn) {
	defer l.close()
	buffer := make([]byte, 64*1024)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if l.isHeldUp() {
			<-l.closed
			return
		}
		if _, err = to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (l *peerLink) isHeldUp() bool {
	switchboard.Lock()
	defer switchboard.Unlock()
	if l.from != nil && isCut(l.from, l.to) {
		l.heldUp = true
	}
	return l.heldUp
}

// ownerOf is the member whose process has the other end of a connection.
func ownerOf(conn *net.UnixConn) *member {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	var who *syscall.Ucred
	raw.Control(func(fd uintptr) { who, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED) })
	if err != nil || who == nil {
		return nil
	}
	switchboard.Lock()
	defer switchboard.Unlock()
	return switchboard.owners[int(who.Pid)]
}
