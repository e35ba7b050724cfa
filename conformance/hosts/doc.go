// Package hosts is who stands at the ends of the lab's wire: the kernel's rxe in a guest, as a
// peer (RXE) and with the original programs (Guest), and this module's stand-ins for those
// programs at a place of this machine (Local).
package hosts
