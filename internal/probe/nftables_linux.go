package probe

import (
	"encoding/binary"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/netlink"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// nftables makes the table of a network with rules, in a network namespace of its own: nf_tables can be there without what redirects. The child passes
// the kernel's answer on: a netlink message is accepted by sendto, and refused in an answer.
func nftables(b blamer) error {
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return err
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	err := try(unix.CLONE_NEWUSER|unix.CLONE_NEWNET, func(p *sys.Program) { addTable(p, pipe[1]) })
	if err != nil {
		return b.explain(facts.Nftables, err)
	}
	answer := make([]byte, ackSize)
	n, _ := unix.Read(pipe[0], answer)
	if n <= 0 { // the kernel has nothing against it
		return nil
	}
	return b.explain(facts.Nftables, &fault.Error{Stage: "nf_tables", Op: "redirect", Err: ackErrno(answer[:n])})
}

// ackSize is what is read of an answer: struct nlmsghdr and the error after it.
const ackSize = 20

// addTable makes the table that redirects connections. The message asks for no acknowledgement: what the kernel answers is an error, which is passed on.
func addTable(p *sys.Program, out int) {
	batch, answer := netlink.Redirect(), make([]byte, ackSize)
	kernel := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(kernel, unix.AF_NETLINK)
	fd := p.Slot()
	p.At(sys.Step{Stage: "socket", Op: "nf_tables"})
	p.Add(unix.SYS_SOCKET, sys.Int(unix.AF_NETLINK), sys.Int(unix.SOCK_RAW|unix.SOCK_CLOEXEC), sys.Int(unix.NETLINK_NETFILTER)).Keep(fd)
	p.At(sys.Step{Stage: "send", Op: "nf_tables"})
	p.Add(unix.SYS_SENDTO, sys.Of(fd), sys.Bytes(batch), sys.Int(len(batch)), sys.Int(0), sys.Bytes(kernel), sys.Int(len(kernel)))
	p.At(sys.Step{Stage: "receive", Op: "nf_tables"})
	p.Add(unix.SYS_RECVFROM, sys.Of(fd), sys.Bytes(answer), sys.Int(len(answer)), sys.Int(unix.MSG_DONTWAIT), sys.Null(), sys.Null()).Min(ackSize)
	p.Then(func() { p.Add(unix.SYS_WRITE, sys.Int(out), sys.Bytes(answer), sys.Int(len(answer))) }, unix.EAGAIN)
}

// ackErrno reads the errno of an answer. What is no answer is EPROTO.
func ackErrno(ack []byte) unix.Errno {
	if len(ack) < ackSize || binary.NativeEndian.Uint16(ack[4:]) != unix.NLMSG_ERROR {
		return unix.EPROTO
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(ack[unix.SizeofNlMsghdr:])))
}
