//! What a node tells about itself.

use crate::testing::jute::Writer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Stat {
    pub(in super::super) czxid: i64,
    pub(in super::super) mzxid: i64,
    pub(super) pzxid: i64,
    pub(super) ctime: i64,
    pub(super) mtime: i64,
    pub(in super::super) version: i32,
    pub(super) cversion: i32,
    pub(super) aversion: i32,
    pub(in super::super) ephemeral_owner: i64,
    pub(super) data_length: i32,
    pub(in super::super) num_children: i32,
}

impl Stat {
    pub(in super::super) fn put(&self, writer: &mut Writer) {
        writer.i64(self.czxid).i64(self.mzxid).i64(self.ctime).i64(self.mtime);
        writer.i32(self.version).i32(self.cversion).i32(self.aversion).i64(self.ephemeral_owner);
        writer.i32(self.data_length).i32(self.num_children).i64(self.pzxid);
    }
}
