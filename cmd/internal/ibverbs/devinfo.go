package ibverbs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goroce/goroce/cmd/internal/getopt"
	"github.com/goroce/goroce/cmd/internal/tool"
	"github.com/goroce/goroce/ib"
	"github.com/goroce/goroce/roce/link"
	"github.com/goroce/goroce/roce/verbs"
)

// options is the command line.
type devinfoOptions struct {
	tool.DeviceOptions
	verbose, list, ipv6, json bool
}

func (o *devinfoOptions) table() []getopt.Option {
	return append([]getopt.Option{
		{Short: 'v', Long: "verbose", Help: "print all attributes", Set: getopt.Bool(&o.verbose)},
		{Short: 'l', Long: "list", Help: "print only the names of devices that can be opened",
			Set: getopt.Bool(&o.list)},
		{Short: 'i', Long: "ib-port", Arg: "port", Help: "port of the device: 1", Set: getopt.Int(new(int), 1, 1)},
		{Long: "ipv6", Help: "use an IPv6 address by default", Set: getopt.Bool(&o.ipv6)},
		{Long: "json", Help: "print one JSON object instead of text", Set: getopt.Bool(&o.json)},
	}, o.Options()...)
}

// Devinfo returns the subcommand devinfo.
func Devinfo() tool.Command {
	return tool.Command{Name: "devinfo", Summary: "what a device is and can do, as ibv_devinfo", Run: runDevinfo}
}

func runDevinfo(_ context.Context, env *tool.Env, args []string) (err error) {
	o := &devinfoOptions{}
	operands, err := tool.Parse(
		"devinfo: what a device is and can do, as ibv_devinfo\n\nUsage:\n  roce devinfo [options]\n\nOptions:\n",
		o.table(), args)
	switch {
	case err != nil:
		return err
	case len(operands) > 0:
		return getopt.Misuse("no operand is expected, not %q", operands)
	case o.list:
		return listDevices(env.Stdout)
	}
	place, err := o.Choose("", o.ipv6)
	if err != nil {
		return err
	}
	dev, release, place, err := o.Open(besideOthers(env), place)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	i := infoOf(dev, place.Name())
	if o.json {
		return tool.WriteJSON(env.Stdout, i)
	}
	i.print(env.Stdout, o.verbose)
	return nil
}

// list prints the interfaces on which a device can be opened.
func listDevices(w io.Writer) error {
	places, err := tool.Places()
	if err != nil {
		return err
	}
	plural := "s"
	if len(places) == 1 {
		plural = ""
	}
	fmt.Fprintf(w, "%d HCA%s found:\n", len(places), plural)
	for _, p := range places {
		fmt.Fprintf(w, "\t%s\n", p.Name())
	}
	fmt.Fprintln(w)
	return nil
}

// info is what --json prints.
type info struct {
	HCA          string            `json:"hca_id"`
	Device       verbs.DeviceAttr  `json:"device"`
	Port         verbs.PortAttr    `json:"port"`
	GIDs         []string          `json:"gids"`
	Link         link.Capabilities `json:"link"`
	maxMTU, mtu  ib.MTU
	gids         []ib.GID
	maxMsgBytes  uint32
	pkeyTableLen int
}

func infoOf(dev *verbs.Device, name string) info {
	i := info{HCA: name, Device: dev.Attr(), Port: dev.Port(), Link: dev.Capabilities(), gids: dev.GIDs()}
	i.maxMTU, i.mtu, i.maxMsgBytes, i.pkeyTableLen = i.Port.MaxMTU, i.Port.ActiveMTU, i.Port.MaxMsg, i.Device.MaxPKeys
	for _, a := range dev.Addrs() {
		i.GIDs = append(i.GIDs, a.String())
	}
	return i
}

// guid formats a GUID in four groups, as ibv_devinfo does.
func guid(g uint64) string {
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// print writes the text of ibv_devinfo, with its tabs.
func (i *info) print(w io.Writer, verbose bool) {
	d := &i.Device
	row := func(indent int, name string, column int, format string, args ...any) {
		// Names and values stand in columns of eight characters.
		width := indent*8 + len(name) + 1
		tabs := max((column-width+7)/8, 1)
		fmt.Fprintf(w, "%s%s:%s%s\n", strings.Repeat("\t", indent), name, strings.Repeat("\t", tabs),
			fmt.Sprintf(format, args...))
	}
	dev := func(name, format string, args ...any) { row(1, name, 40, format, args...) }
	port := func(name, format string, args ...any) { row(3, name, 48, format, args...) }

	fmt.Fprintf(w, "hca_id:\t%s\n", i.HCA)
	dev("transport", "InfiniBand (0)")
	dev("fw_ver", "%s", d.FirmwareVersion)
	dev("node_guid", "%s", guid(d.NodeGUID))
	dev("sys_image_guid", "%s", guid(d.SystemImageGUID))
	dev("vendor_id", "0x%04x", d.VendorID)
	dev("vendor_part_id", "0")
	dev("hw_ver", "0x0")
	dev("phys_port_cnt", "%d", d.PhysicalPorts)
	if verbose {
		i.printDevice(dev)
	}
	fmt.Fprintf(w, "\t\tport:\t1\n")
	state := "PORT_DOWN (1)"
	if i.Port.Active {
		state = "PORT_ACTIVE (4)"
	}
	port("state", "%s", state)
	port("max_mtu", "%d (%d)", i.maxMTU.Bytes(), i.maxMTU)
	port("active_mtu", "%d (%d)", i.mtu.Bytes(), i.mtu)
	port("sm_lid", "0")
	port("port_lid", "0")
	port("port_lmc", "0x00")
	port("link_layer", "%s", i.Port.LinkLayer)
	if verbose {
		port("max_msg_sz", "0x%x", i.maxMsgBytes)
		port("pkey_tbl_len", "%d", i.pkeyTableLen)
		port("gid_tbl_len", "%d", i.Port.GIDs)
		port("link", "%s", i.Port.LinkName)
		for n, g := range i.gids {
			fmt.Fprintf(w, "\t\t\tGID[%3d]:\t\t%s, RoCE v2\n", n, tool.GIDText(g.Addr()))
		}
		i.printLink(port)
	}
	fmt.Fprintln(w)
}

func (i *info) printDevice(row func(name, format string, args ...any)) {
	d := &i.Device
	row("max_mr_size", "0x%x", d.MaxMRBytes)
	row("max_qp", "%d", d.MaxQP)
	row("max_qp_wr", "%d", d.MaxQPWR)
	row("max_sge", "%d", d.MaxSGE)
	row("max_sge_rd", "%d", d.MaxSGERead)
	row("max_inline", "%d", d.MaxInline)
	row("max_cq", "%d", d.MaxCQ)
	row("max_cqe", "%d", d.MaxCQE)
	row("max_mr", "%d", d.MaxMR)
	row("max_pd", "%d", d.MaxPD)
	row("max_qp_rd_atom", "%d", d.MaxQPRdAtomic)
	row("max_qp_init_rd_atom", "%d", d.MaxQPInitAtomic)
	row("atomic_cap", "%v (%d)", d.AtomicCap, d.AtomicCap)
	row("max_mw", "%d", d.MaxMW)
	row("max_ah", "%d", d.MaxAH)
	row("max_srq", "%d", d.MaxSRQ)
	row("max_srq_wr", "%d", d.MaxSRQWR)
	row("max_srq_sge", "%d", d.MaxSRQSGE)
	row("max_pkeys", "%d", d.MaxPKeys)
	row("local_ca_ack_delay", "%d", d.LocalCAAckDelay)
	row("mem_window_type_2b", "%t", d.MemWindowType2B)
	row("flush_global", "%t", d.FlushGlobal)
	row("atomic_write", "%t", d.AtomicWrite)
	row("srq_resize", "%t", d.ResizableSRQ)
	row("num_comp_vectors", "%d", d.CompletionVectors)
}

// printLink prints what the packets travel by, which has no equivalent in verbs.
func (i *info) printLink(row func(name, format string, args ...any)) {
	l := &i.Link
	onOff := func(on bool) string {
		if on {
			return "on"
		}
		return "off"
	}
	row("icrc_check", "%d bits for IPv4, 32 for IPv6", l.ICRCBits)
	row("gso", "%s", onOff(l.GSO))
	row("gro", "%s", onOff(l.GRO))
	row("ecn", "%s", onOff(l.ECN))
	row("send_buffer", "%d", l.SendBufferBytes)
	row("recv_buffer", "%d", l.RecvBufferBytes)
	if l.Alone != "" {
		row("not_shared", "%s", l.Alone)
	}
}
