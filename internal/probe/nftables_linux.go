package probe

import (
	"encoding/binary"

	"github.com/nsrun/nsrun/internal/fault"
	"github.com/nsrun/nsrun/internal/sys"
	"github.com/nsrun/nsrun/nsrun/facts"
	"golang.org/x/sys/unix"
)

// nftables adds a table in a network namespace of its own, as a network with rules would. The child passes the kernel's answer on: a
// netlink message is accepted by sendto, and refused in an answer.
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
	ack := make([]byte, ackSize)
	n, _ := unix.Read(pipe[0], ack)
	if errno := ackErrno(ack[:max(n, 0)]); errno != 0 {
		return b.explain(facts.Nftables, &fault.Error{Stage: "nf_tables", Op: "new table", Err: errno})
	}
	return nil
}

// ackSize is what is read of an answer: struct nlmsghdr and the error after it.
const ackSize = 20

func addTable(p *sys.Program, out int) {
	batch, ack := tableBatch(), make([]byte, ackSize)
	kernel := make([]byte, unix.SizeofSockaddrNetlink)
	binary.NativeEndian.PutUint16(kernel, unix.AF_NETLINK)
	fd := p.Slot()
	p.At(sys.Step{Stage: "socket", Op: "nf_tables"})
	p.Add(unix.SYS_SOCKET, sys.Int(unix.AF_NETLINK), sys.Int(unix.SOCK_RAW|unix.SOCK_CLOEXEC), sys.Int(unix.NETLINK_NETFILTER)).Keep(fd)
	p.At(sys.Step{Stage: "send", Op: "nf_tables"})
	p.Add(unix.SYS_SENDTO, sys.Of(fd), sys.Bytes(batch), sys.Int(len(batch)), sys.Int(0), sys.Bytes(kernel), sys.Int(len(kernel)))
	p.At(sys.Step{Stage: "receive", Op: "nf_tables"})
	// The kernel has answered before sendto returns: nothing to read is a no, and nothing to wait for.
	p.Add(unix.SYS_RECVFROM, sys.Of(fd), sys.Bytes(ack), sys.Int(len(ack)), sys.Int(unix.MSG_DONTWAIT), sys.Null(), sys.Null()).Min(ackSize)
	p.Add(unix.SYS_WRITE, sys.Int(out), sys.Bytes(ack), sys.Int(len(ack)))
}

// Of include/uapi/linux/netfilter/nfnetlink.h and nf_tables.h.
const (
	batchBegin  = 0x10 // NFNL_MSG_BATCH_BEGIN
	batchEnd    = 0x11 // NFNL_MSG_BATCH_END
	subsystem   = 10   // NFNL_SUBSYS_NFTABLES
	newTable    = subsystem << 8
	familyInet  = 1 // NFPROTO_INET
	tableName   = 1 // NFTA_TABLE_NAME
	tableToMake = "nsrun"
)

func tableBatch() []byte {
	name := append([]byte(tableToMake), 0)
	attr := binary.NativeEndian.AppendUint16(nil, uint16(4+len(name)))
	attr = append(binary.NativeEndian.AppendUint16(attr, tableName), name...)
	for len(attr)%4 != 0 {
		attr = append(attr, 0)
	}
	batch := message(nil, batchBegin, unix.NLM_F_REQUEST, 0, 0, subsystem, nil)
	batch = message(batch, newTable, unix.NLM_F_REQUEST|unix.NLM_F_ACK|unix.NLM_F_CREATE, 1, familyInet, 0, attr)
	return message(batch, batchEnd, unix.NLM_F_REQUEST, 2, 0, subsystem, nil)
}

// message appends a netlink message with a struct nfgenmsg: netlink(7).
func message(to []byte, kind, flags uint16, seq uint32, family byte, resource uint16, attrs []byte) []byte {
	to = binary.NativeEndian.AppendUint32(to, uint32(unix.SizeofNlMsghdr+4+len(attrs)))
	to = binary.NativeEndian.AppendUint16(to, kind)
	to = binary.NativeEndian.AppendUint16(to, flags)
	to = binary.NativeEndian.AppendUint32(to, seq)
	to = binary.NativeEndian.AppendUint32(to, 0)
	to = binary.BigEndian.AppendUint16(append(to, family, 0), resource)
	return append(to, attrs...)
}

// ackErrno reads the errno of an answer; 0 is consent. What is no answer is EPROTO.
func ackErrno(ack []byte) unix.Errno {
	if len(ack) < ackSize || binary.NativeEndian.Uint16(ack[4:]) != unix.NLMSG_ERROR {
		return unix.EPROTO
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(ack[unix.SizeofNlMsghdr:])))
}
