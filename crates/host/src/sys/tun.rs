use std::io::{self, IoSlice, IoSliceMut};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, StatxFlags, fcntl_getfl, fcntl_setfl, open, statx,
};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2, readv, write};
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::socket::namespace_of;
use crate::closer::Closer;

/// `preadv2` and `pwritev2` as `readv` and `writev`.
const NO_PLACE: u64 = u64::MAX;

/// What a network device's packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TunKind {
    /// IP packets (TUN).
    Routed,
    /// Ethernet frames without their check sequence (TAP).
    Bridged,
}

/// A network device of this machine whose wire is this descriptor: what the kernel sends is read,
/// what is written the kernel receives. It ends with its last descriptor, unless it was made
/// persistent by others. Never waits.
///
/// It lies in the network namespace of the thread that opened it, and is set up there.
#[derive(Debug)]
pub struct Tun {
    device: OwnedFd,
    /// A datagram socket of IP: it stands for the network namespace.
    namespace: OwnedFd,
    name: [libc::c_char; libc::IFNAMSIZ],
}

impl Tun {
    /// Makes the device `name`, or takes one that was made persistent for this user. `%d` in the
    /// name becomes a number.
    ///
    /// # Errors
    /// No privilege (CAP_NET_ADMIN) or no `/dev/net/tun`; the name is none, or a device of another
    /// kind has it, or somebody uses it.
    pub fn open(name: &str, kind: TunKind) -> io::Result<Self> {
        let mut request = request(name)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let device = open("/dev/net/tun", flags, Mode::empty())?;
        let kind = match kind {
            TunKind::Routed => libc::IFF_TUN,
            TunKind::Bridged => libc::IFF_TAP,
        };
        // Below 2^15.
        request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI) as libc::c_short;
        ioctl(&device, libc::TUNSETIFF as libc::c_ulong, &mut request)?;
        let flags = SocketFlags::CLOEXEC;
        let namespace = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
        Ok(Self {
            device,
            namespace,
            name: request.ifr_name,
        })
    }

    /// A device that another process has opened, by its descriptor, and that of a datagram socket
    /// of IP in its network namespace, as [`Tun::open`] makes one. Both may be anything: they are
    /// looked at first, and whatever else they are is neither waited for nor closed here.
    ///
    /// # Errors
    /// The first is no network device's, or has none yet; the second is no such socket.
    pub(crate) fn adopt(device: Closer, namespace: Closer) -> io::Result<Self> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        if !is_tun(&device)? {
            return Err(wrong("it is no descriptor of /dev/net/tun"));
        }
        if !is_datagram_socket_of_ip(&namespace) {
            let what = "the network namespace's is no datagram socket of IPv4 or IPv6";
            return Err(wrong(what));
        }
        let [device, namespace] = [device, namespace].map(Closer::into_inner);
        let mut request = empty_request();
        ioctl(&device, libc::TUNGETIFF as libc::c_ulong, &mut request)?;
        fcntl_setfl(&device, OFlags::NONBLOCK)?;
        Ok(Self {
            device,
            namespace,
            name: request.ifr_name,
        })
    }

    /// What tells its network namespace from others; none: the kernel does not say.
    pub(crate) fn namespace(&self) -> Option<u64> {
        namespace_of(&self.namespace)
    }

    /// The same device and namespace, for whoever is to carry its packets.
    pub fn descriptors(&self) -> [BorrowedFd<'_>; 2] {
        [self.device.as_fd(), self.namespace.as_fd()]
    }

    /// What its packets are; none: neither.
    pub fn kind(&self) -> Option<TunKind> {
        let mut request = self.request();
        ioctl(&self.device, libc::TUNGETIFF as libc::c_ulong, &mut request).ok()?;
        // SAFETY: the kernel has written the flags; any octets are a number.
        let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
        match (flags & libc::IFF_TUN != 0, flags & libc::IFF_TAP != 0) {
            _ if flags & libc::IFF_NO_PI == 0 || flags & libc::IFF_VNET_HDR != 0 => None,
            (true, _) => Some(TunKind::Routed),
            (_, true) => Some(TunKind::Bridged),
            _ => None,
        }
    }

    /// The longest packet that the kernel sends; none: it was moved to another namespace.
    pub fn mtu(&self) -> Option<u32> {
        let mut request = self.request();
        ioctl(&self.namespace, libc::SIOCGIFMTU, &mut request).ok()?;
        // SAFETY: the kernel has written the MTU; any octets are a number.
        unsafe { request.ifr_ifru.ifru_mtu }.try_into().ok()
    }

    fn request(&self) -> libc::ifreq {
        libc::ifreq {
            ifr_name: self.name,
            ..empty_request()
        }
    }

    pub fn name(&self) -> String {
        let octets = self.name.iter().map(|octet| octet.cast_unsigned());
        let octets: Vec<u8> = octets.take_while(|octet| *octet != 0).collect();
        String::from_utf8_lossy(&octets).into_owned()
    }

    /// Sets the largest IP packet, in octets.
    ///
    /// # Errors
    /// No privilege, or the kernel refuses the size.
    pub fn set_mtu(&self, mtu: u16) -> io::Result<()> {
        let mut request = self.request();
        ioctl(&self.namespace, libc::SIOCGIFMTU, &mut request)?;
        // SAFETY: the kernel has written the MTU; any octets are a number.
        if unsafe { request.ifr_ifru.ifru_mtu } == libc::c_int::from(mtu) {
            return Ok(());
        }
        request.ifr_ifru.ifru_mtu = mtu.into();
        ioctl(&self.namespace, libc::SIOCSIFMTU, &mut request)
    }

    /// Brings it up.
    ///
    /// # Errors
    /// No privilege.
    pub fn set_up(&self) -> io::Result<()> {
        let mut request = self.request();
        ioctl(&self.namespace, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: the kernel has written the flags; any octets are a number.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        let up = libc::IFF_UP as libc::c_short;
        if flags & up != 0 {
            return Ok(());
        }
        request.ifr_ifru.ifru_flags = flags | up;
        ioctl(&self.namespace, libc::SIOCSIFFLAGS, &mut request)
    }

    /// Gives it an address, whose first `prefix` bits are those of its network.
    ///
    /// # Errors
    /// No privilege, or the kernel refuses the address.
    pub fn set_address(&self, address: IpAddr, prefix: u8) -> io::Result<()> {
        match address {
            IpAddr::V4(address) => self.set_ipv4(address, prefix),
            IpAddr::V6(address) => self.set_ipv6(address, prefix),
        }
    }

    fn set_ipv4(&self, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
        let host_bits = 32_u32.checked_sub(prefix.into());
        let host_bits = host_bits.ok_or(io::ErrorKind::InvalidInput)?;
        let mask = u32::MAX.checked_shl(host_bits).unwrap_or(0);
        let mut request = self.request();
        request.ifr_ifru.ifru_addr = sockaddr(address);
        ioctl(&self.namespace, libc::SIOCSIFADDR, &mut request)?;
        request.ifr_ifru.ifru_netmask = sockaddr(mask.into());
        ioctl(&self.namespace, libc::SIOCSIFNETMASK, &mut request)
    }

    fn set_ipv6(&self, address: Ipv6Addr, prefix: u8) -> io::Result<()> {
        let mut request = self.request();
        ioctl(&self.namespace, libc::SIOCGIFINDEX, &mut request)?;
        let mut wanted = libc::in6_ifreq {
            ifr6_addr: libc::in6_addr {
                s6_addr: address.octets(),
            },
            ifr6_prefixlen: prefix.into(),
            // SAFETY: the kernel has written the index; any octets are a number.
            ifr6_ifindex: unsafe { request.ifr_ifru.ifru_ifindex },
        };
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None)?;
        ioctl(&socket, libc::SIOCSIFADDR, &mut wanted)
    }

    /// Its IPv4 address at this time; none: it has none, or was moved to another namespace.
    pub fn ipv4(&self) -> Option<Ipv4Addr> {
        let mut request = self.request();
        ioctl(&self.namespace, libc::SIOCGIFADDR, &mut request).ok()?;
        // SAFETY: the kernel has written a socket address; any octets are numbers.
        let address = unsafe { request.ifr_ifru.ifru_addr };
        let [_, _, a, b, c, d, ..] = address.sa_data.map(|octet| octet.cast_unsigned());
        Some(Ipv4Addr::new(a, b, c, d))
    }

    /// Reads the next packet that the kernel sends: its octets in `packet`. One that is longer
    /// than `packet` is gone, and told by a number above `packet.len()`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: there is none; the device is gone.
    #[inline]
    pub fn read(&self, packet: &mut [u8]) -> io::Result<usize> {
        let mut beyond = [0];
        let mut parts = [IoSliceMut::new(packet), IoSliceMut::new(&mut beyond)];
        // Whoever shares the open file can have it wait again: O_NONBLOCK is for older kernels.
        let nowait = ReadWriteFlags::NOWAIT;
        match preadv2(&self.device, &mut parts, NO_PLACE, nowait) {
            Err(Errno::OPNOTSUPP) => Ok(readv(&self.device, &mut parts)?),
            read => Ok(read?),
        }
    }

    /// Has the kernel receive a packet.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] and others: it has no room; it takes no such packet
    /// ([`io::ErrorKind::InvalidInput`]); it is not up; it is gone.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> io::Result<()> {
        let parts = [IoSlice::new(packet)];
        match pwritev2(&self.device, &parts, NO_PLACE, ReadWriteFlags::NOWAIT) {
            Err(Errno::OPNOTSUPP) => write(&self.device, packet)?,
            written => written?,
        };
        Ok(())
    }

    /// Whether somebody has removed the device.
    pub fn is_removed(&self) -> bool {
        let mut request = self.request();
        let asked = ioctl(&self.device, libc::TUNGETIFF as libc::c_ulong, &mut request);
        asked.is_err_and(|error| Self::is_gone(&error))
    }

    /// Whether an error of [`Tun::read`] or [`Tun::write`] says that the device is gone.
    pub fn is_gone(error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::EBADFD)
    }
}

impl AsFd for Tun {
    /// Readable as soon as there is a packet.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}

/// Whether a descriptor is of `/dev/net/tun`. No file system is asked that may answer when it
/// likes.
pub(crate) fn is_tun(fd: &Closer) -> io::Result<bool> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = statx(fd, c"", flags, StatxFlags::TYPE)?;
    let file = FileType::from_raw_mode(found.stx_mode.into());
    let device = (found.stx_rdev_major, found.stx_rdev_minor);
    // A name of a file is no open one.
    let open = !fcntl_getfl(fd)?.contains(OFlags::PATH);
    Ok(open && file == FileType::CharacterDevice && device == (10, 200))
}

/// Others may do anything when they are closed: a TCP socket lingers, a Unix socket closes what
/// lies in it.
fn is_datagram_socket_of_ip(fd: &Closer) -> bool {
    let ip = [AddressFamily::INET, AddressFamily::INET6];
    socket_type(fd) == Ok(SocketType::DGRAM) && socket_domain(fd).is_ok_and(|of| ip.contains(&of))
}

/// A request about the device without a name.
fn empty_request() -> libc::ifreq {
    // SAFETY: all zeroes are names, numbers and no pointer.
    unsafe { mem::zeroed() }
}

/// A request about the device `name`.
fn request(name: &str) -> io::Result<libc::ifreq> {
    let mut request = empty_request();
    // The last octet stays zero.
    let room = request.ifr_name.len() - 1;
    if name.is_empty() || name.len() > room || name.contains('\0') {
        let reason = format!("`{name}` is no name: 1 to {room} octets");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    for (to, octet) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = octet.cast_signed();
    }
    Ok(request)
}

fn sockaddr(address: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    // Behind two octets of port.
    for (to, octet) in data[2..].iter_mut().zip(address.octets()) {
        *to = octet.cast_signed();
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: data,
    }
}

/// A request that the kernel reads and answers in place.
trait Request {}

impl Request for libc::ifreq {}
impl Request for libc::in6_ifreq {}

/// C libraries differ in the type of `what`: those of TUN have that of the function, and the others
/// are `c_ulong`.
fn ioctl(fd: &OwnedFd, what: libc::c_ulong, request: &mut impl Request) -> io::Result<()> {
    let request = std::ptr::from_mut(request);
    // SAFETY: every `what` of this file reads and writes at most an `ifreq`, and SIOCSIFADDR of an
    // IPv6 socket an `in6_ifreq`, which is what its callers pass.
    match unsafe { libc::ioctl(fd.as_raw_fd(), what as libc::Ioctl, request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_the_kernel_has_room_for() {
        for name in ["", "sixteen-octets--", "a\0b"] {
            let error = Tun::open(name, TunKind::Routed).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(request("fifteen-octets-").is_ok());
    }

    #[test]
    fn addresses_lie_behind_the_port() {
        let address = sockaddr(Ipv4Addr::new(10, 0, 0, 200));
        assert_eq!(address.sa_data[..7], [0, 0, 10, 0, 0, -56, 0]);
    }

    #[test]
    fn a_namespace_is_told_by_a_datagram_socket_of_ip_alone() {
        use {AddressFamily as Family, SocketType as Type};
        for (family, kind, stands) in [
            (Family::INET, Type::DGRAM, true),
            (Family::INET6, Type::DGRAM, true),
            (Family::INET, Type::STREAM, false),
            (Family::UNIX, Type::DGRAM, false),
        ] {
            match rustix::net::socket(family, kind, None) {
                Ok(fd) => assert_eq!(is_datagram_socket_of_ip(&fd.into()), stands, "{family:?}"),
                Err(error) => println!("skipped {family:?}: {error}"),
            }
        }
        let none: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        assert!(!is_datagram_socket_of_ip(&none.into()));
        for (path, flags, is) in [
            ("/dev/null", OFlags::RDWR, false),
            ("/dev/net/tun", OFlags::RDWR, true),
            ("/dev/net/tun", OFlags::PATH, false),
        ] {
            match open(path, flags | OFlags::CLOEXEC, Mode::empty()) {
                Ok(fd) => assert_eq!(is_tun(&fd.into()).unwrap(), is, "{path} {flags:?}"),
                Err(error) => println!("skipped {path}: {error}"),
            }
        }
    }

    /// In a namespace of this thread's own, so that nothing is left behind.
    #[test]
    fn a_device_is_set_up_and_carries_packets() {
        // SAFETY: changes nothing but the namespace of this thread, which no other test runs on.
        let apart = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        let opened = match apart {
            0 => Tun::open("cell%d", TunKind::Routed),
            _ => Err(io::Error::last_os_error()),
        };
        let tun = match opened {
            Ok(tun) => tun,
            Err(error) => return println!("skipped tun_device: {error}"),
        };
        assert_eq!(tun.name(), "cell0");
        assert_eq!(tun.ipv4(), None);
        let address = Ipv4Addr::new(10, 166, 7, 1);
        tun.set_mtu(1_400).unwrap();
        tun.set_address(address.into(), 24).unwrap();
        tun.set_address("fd00:166::1".parse().unwrap(), 64).unwrap();
        tun.set_up().unwrap();
        tun.set_up().unwrap();
        assert_eq!(tun.ipv4(), Some(address));
        assert!(tun.set_address(address.into(), 33).is_err());

        // What is sent to a neighbour comes out; the kernel's own IPv6 beside it is skipped.
        let next = |packet: &mut [u8]| loop {
            let read = tun.read(packet)?;
            if packet[0] >> 4 == 4 {
                return io::Result::Ok(read);
            }
        };
        let neighbour = "10.166.7.2:7";
        let socket = std::net::UdpSocket::bind((address, 7)).unwrap();
        let mut packet = [0; 1_400];
        for len in [100, 0, 1_372] {
            socket.send_to(&vec![len as u8; len], neighbour).unwrap();
            assert_eq!(next(&mut packet).unwrap(), 28 + len);
            assert!(packet[28..28 + len].iter().all(|octet| *octet == len as u8));
        }
        socket.send_to(&[1; 100], neighbour).unwrap();
        assert_eq!(next(&mut packet[..127]).unwrap(), 128);
        let error = next(&mut packet).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        // Whoever shares the open file has it wait.
        let bytes = &mut [IoSliceMut::new(&mut packet)];
        let asked = preadv2(&tun.device, bytes, NO_PLACE, ReadWriteFlags::NOWAIT);
        if asked == Err(Errno::AGAIN) {
            fcntl_setfl(&tun.device, OFlags::empty()).unwrap();
            let error = next(&mut packet).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        }

        // And back: the same packet with its ends swapped, which keeps both checksums.
        socket.send_to(b"echo", neighbour).unwrap();
        let read = next(&mut packet).unwrap();
        packet[12..20].rotate_left(4);
        tun.write(&packet[..read]).unwrap();
        let mut octets = [0; 8];
        let (len, from) = socket.recv_from(&mut octets).unwrap();
        assert_eq!(&octets[..len], b"echo");
        assert_eq!(from, neighbour.parse().unwrap());
        let none = tun.write(&[0; 20]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::InvalidInput);
        assert!(!Tun::is_gone(&none));
        println!("ran tun_device");
    }
}
