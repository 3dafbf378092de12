//! Large blocks over the channel of blocks (section 7): read from the application part by part, handed over part by
//! part. Nobody ever holds a whole one.

use super::{Outbox, SendError};
use crate::session::fignet::pools::Buffers;
use crate::wire::cursor::Writer;
use crate::wire::fignet::block::{BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockHeader};
use crate::wire::fignet::{MESSAGE_SEQUENCE_BYTES, MTU_MAX};

/// A part of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockPart<'a> {
    /// The block.
    pub header: BlockHeader,
    /// Where in it the part belongs: parts come in order and without gaps.
    pub offset: u32,
    /// The part.
    pub data: &'a [u8],
}

impl BlockPart<'_> {
    /// Whether the block is whole with this part.
    pub const fn is_last(&self) -> bool {
        self.offset as usize + self.data.len() == self.header.size as usize
    }
}

/// How far a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockProgress {
    /// The block.
    pub header: BlockHeader,
    /// Bytes read from the application.
    pub queued: u32,
    /// Bytes that arrived.
    pub confirmed: u32,
}

impl BlockProgress {
    /// Whether all of it arrived.
    pub const fn is_done(&self) -> bool {
        self.confirmed == self.header.size
    }
}

/// The block that is being received.
#[derive(Debug)]
pub(super) struct BlockInbox {
    channel: Option<u8>,
    current: Option<(BlockHeader, u32)>,
}

impl BlockInbox {
    pub(super) const fn new(channel: Option<u8>) -> Self {
        Self { channel, current: None }
    }

    pub(super) const fn reset(&mut self) {
        self.current = None;
    }

    pub(super) fn is_channel(&self, channel: u8) -> bool {
        self.channel == Some(channel)
    }

    /// The part in a message; `None` when it is none, or not the next one.
    pub(super) fn take<'a>(&mut self, message: &'a [u8]) -> Option<BlockPart<'a>> {
        let (header, data) = BlockHeader::parse(message)?;
        let offset = match self.current {
            None => 0,
            Some((current, offset)) if current == header => offset,
            Some(_) => return None,
        };
        let part = BlockPart { header, offset, data };
        if data.len() > (header.size - offset) as usize {
            return None;
        }
        self.current = if part.is_last() { None } else { Some((header, offset + data.len() as u32)) };
        Some(part)
    }
}

/// The block that is being sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockOutbox {
    header: BlockHeader,
    queued: u32,
    /// What the channel had confirmed before.
    before: (u64, u64),
}

impl BlockOutbox {
    pub(super) fn new(header: BlockHeader, confirmed: (u64, u64)) -> Result<Self, SendError> {
        if !(1..=BLOCK_BYTES_MAX).contains(&header.size) {
            return Err(SendError::TooLarge);
        }
        Ok(Self { header, queued: 0, before: confirmed })
    }

    pub(super) fn progress(&self, confirmed: (u64, u64)) -> BlockProgress {
        let parts = confirmed.0 - self.before.0;
        let overhead = parts * (MESSAGE_SEQUENCE_BYTES + BLOCK_HEADER_BYTES) as u64;
        let confirmed = (confirmed.1 - self.before.1 - overhead) as u32;
        BlockProgress { header: self.header, queued: self.queued, confirmed }
    }

    pub(super) const fn is_queued(&self) -> bool {
        self.queued == self.header.size
    }

    /// Queues as many parts as there is room for, each of which fills a packet.
    pub(super) fn feed(
        &mut self,
        channel: u8,
        payload_bytes: usize,
        outbox: &mut Outbox,
        buffers: &mut Buffers,
        mut read: impl FnMut(u32, &mut [u8]),
    ) -> Result<(), SendError> {
        let data_max = payload_bytes - MESSAGE_SEQUENCE_BYTES - BLOCK_HEADER_BYTES;
        while self.queued < self.header.size {
            let left = (self.header.size - self.queued) as usize;
            let mut part = [0; MTU_MAX];
            let part = &mut part[..BLOCK_HEADER_BYTES + left.min(data_max)];
            let (head, data) = part.split_at_mut(BLOCK_HEADER_BYTES);
            self.header.emit(&mut Writer::new(head));
            read(self.queued, data);
            let data_len = data.len() as u32;
            match outbox.push(buffers, channel, part, None) {
                Ok(()) => self.queued += data_len,
                Err(SendError::NoRoom) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
