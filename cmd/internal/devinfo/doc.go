// Package devinfo is devinfo: it opens a device and prints what it is and can
// do, in the shape of ibv_devinfo.
package devinfo
